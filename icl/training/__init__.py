"""Training: steps inside the compiled program, many members side by side.

Protocols say what is trained; the run folder belongs to `icl.runs`.
"""

from ._fit import fit as fit, prepare as prepare, Stopped as Stopped
from ._member import (
    check_edits as check_edits,
    check_set_names as check_set_names,
    Member as Member,
    Result as Result,
)
from ._run_files import (
    expected_files as expected_files,
    last_checkpoint as last_checkpoint,
)
from ._sharing import devices_of as devices_of
from ._steps import evaluate_batch as evaluate_batch
from .schedules import Training as Training
