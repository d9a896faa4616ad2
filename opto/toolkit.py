"""Helpers for edits of your own, besides `Edit`, `Derived` and `Kind`."""

from ._checks import named as named, whole as whole
from ._derived import (
    check_attention as check_attention,
    check_needs as check_needs,
    over_rows as over_rows,
    put as put,
)
from ._edit import (
    check_strength as check_strength,
    Heads as Heads,
    number as number,
    select as select,
    Selection as Selection,
    several as several,
)
from ._effects import warn_without_effect as warn_without_effect
from ._run import (
    check_call as check_call,
    raise_wrong as raise_wrong,
    ran_with as ran_with,
)
from ._site import glob as glob
from ._text import REGISTERED as REGISTERED
from ._together import Changes as Changes, Replaces as Replaces
from ._where import Chosen as Chosen, is_concrete as is_concrete, known as known
from .patterns import fraction as fraction
