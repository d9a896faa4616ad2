"""What edits of one's own are made of, besides `Edit`, `Derived` and `Kind`."""

from ._derived import (
    check_attention as check_attention,
    check_needs as check_needs,
    put as put,
)
from ._edit import (
    check_strength as check_strength,
    Heads as Heads,
    named as named,
    select as select,
    Selection as Selection,
    several as several,
)
from ._together import Changes as Changes, Replaces as Replaces
from ._where import Chosen as Chosen, is_concrete as is_concrete, known as known
from .patterns import fraction as fraction
