"""What edits, models and programs of your own are built from."""

from ._check_edits import check as check, check_call as check_call
from ._checks import named as named, whole as whole
from ._derived import (
    check_attention as check_attention,
    check_needs as check_needs,
    Derived as Derived,
    over_rows as over_rows,
    put as put,
    RunContext as RunContext,
)
from ._edit import (
    AbstractEdit as AbstractEdit,
    check_strength as check_strength,
    Edit as Edit,
    Heads as Heads,
    number as number,
    select as select,
    Selection as Selection,
    several as several,
)
from ._effects import (
    Effect as Effect,
    EffectTable as EffectTable,
    warn_without_effect as warn_without_effect,
)
from ._examples import on_examples as on_examples, OnExamples as OnExamples
from ._record import Record as Record
from ._run import lift as lift, raise_wrong as raise_wrong, ran_with as ran_with
from ._site import glob as glob, Site as Site, Sites as Sites
from ._sweep import Combinations as Combinations, combinations as combinations
from ._swept import Each as Each
from ._tap import Rows as Rows
from ._text import register as register, REGISTERED as REGISTERED
from ._where import (
    Chosen as Chosen,
    is_concrete as is_concrete,
    known as known,
    Where as Where,
)
from .attention import fraction as fraction
