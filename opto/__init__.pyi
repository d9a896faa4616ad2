from . import (
    align as align,
    attention as attention,
    attribution as attribution,
    circuits as circuits,
    dictionary as dictionary,
    discovery as discovery,
    heads as heads,
    hints as hints,
    lens as lens,
    patching as patching,
    rolling as rolling,
    toolkit as toolkit,
    view as view,
)
from ._derived import Freeze as Freeze
from ._discover import sites as sites
from ._edit import At as At
from ._edits import Clamp as Clamp, Scale as Scale, Steer as Steer, Zero as Zero
from ._effects import NoEffectWarning as NoEffectWarning
from ._fit import fit as fit, Fitted as Fitted
from ._gradient import strength_grad as strength_grad
from ._per_example import PerExample as PerExample
from ._reference import Mean as Mean, Patch as Patch, Resample as Resample
from ._run import effects as effects, run as run, visit as visit
from ._splice import splice as splice, Spliced as Spliced
from ._stack import stack as stack
from ._subspace import Project as Project
from ._sweep import sweep as sweep
from ._tap import identity as identity, Tap as Tap
from ._tapped import Tapped as Tapped, tapped as tapped
from ._text import parse as parse
from .graft import Graft as Graft
from .rolling import roll_out as roll_out
from .view import explore as explore, show as show, show_lens as show_lens
