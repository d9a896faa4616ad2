"""The run folder: config, log, checkpoints, resume points, and what keeps them whole.

What a config means belongs to `icl.experiments`; here it is JSON.
"""

from ._disk import disk as disk, read_object as read_object
from ._finished import (
    is_finished as is_finished,
    is_run as is_run,
    total_sequences as total_sequences,
)
from ._lock import lock as lock
from ._provenance import code_version as code_version
from .folder import (
    open_run as open_run,
    resume_points as resume_points,
    Run as Run,
    RunWriter as RunWriter,
)
from .log import Log as Log
