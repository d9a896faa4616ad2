"""Artificial optogenetics: record and edit every activation of an Equinox model.

A model names its intermediate values with `tap(name, value, axes)`; everything else
here reads and changes those values from outside.
"""

from ._each import Each as Each
from ._edit import Clamp as Clamp, Edit as Edit, Zero as Zero
from ._run import (
    check as check,
    lift as lift,
    Record as Record,
    run as run,
    visit as visit,
)
from ._site import Site as Site, Sites as Sites, sites as sites
from ._sweep import stack as stack, sweep as sweep
from ._tap import identity as identity, Tap as Tap
from ._text import parse as parse
from ._tokens import EXEMPLAR as EXEMPLAR, LABEL as LABEL, QUERY as QUERY
from ._where import Where as Where
