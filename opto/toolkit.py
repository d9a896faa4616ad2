"""Helpers for edits of your own, besides `Edit`, `Derived` and `Kind`."""

from ._checks import named as named, truth as truth, whole as whole
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
from ._effects import check_effects as check_effects, with_effect as with_effect
from ._observed import Observed as Observed
from ._reach import everything as everything, Reach as Reach, setting as setting
from ._run import (
    check_call as check_call,
    run_within as run_within,
    visit_within as visit_within,
)
from ._site import glob as glob
from ._text import REGISTERED as REGISTERED
from ._together import Changes as Changes, Replaces as Replaces
from ._tokens import known_tokens as known_tokens
from ._where import Chosen as Chosen, is_concrete as is_concrete, known as known
from .patterns import fraction as fraction
