from . import (
    circuits as circuits,
    heads as heads,
    hints as hints,
    lens as lens,
    toolkit as toolkit,
)
from ._attention import Block as Block, Pattern as Pattern
from ._circuit import Circuit as Circuit
from ._derived import Derived as Derived, Freeze as Freeze, Given as Given
from ._each import Each as Each
from ._edit import AbstractEdit as AbstractEdit, At as At, Edit as Edit
from ._edits import Clamp as Clamp, Scale as Scale, Steer as Steer, Zero as Zero
from ._effects import (
    Effect as Effect,
    EffectTable as EffectTable,
    NoEffectWarning as NoEffectWarning,
)
from ._examples import on_examples as on_examples, OnExamples as OnExamples
from ._gradient import strength_grad as strength_grad
from ._record import Record as Record
from ._reference import Mean as Mean, Patch as Patch, Resample as Resample
from ._run import (
    check as check,
    effects as effects,
    lift as lift,
    run as run,
    visit as visit,
)
from ._site import Site as Site, Sites as Sites, sites as sites
from ._sweep import (
    Combinations as Combinations,
    combinations as combinations,
    stack as stack,
    sweep as sweep,
)
from ._tap import identity as identity, Rows as Rows, Tap as Tap
from ._text import parse as parse, register as register
from ._tokens import name_tokens as name_tokens
from ._where import Where as Where
from .attribution import (
    attribution_patch as attribution_patch,
    integrated_attribution as integrated_attribution,
)
from .discovery import find_circuit as find_circuit
from .graft import Graft as Graft
from .patching import (
    activation_patch as activation_patch,
    path_patch as path_patch,
    PathPatch as PathPatch,
)
from .patterns import (
    Kind as Kind,
    PreviousToken as PreviousToken,
    Uniform as Uniform,
)
