"""The run folder: config, log, checkpoints and resume points.

`icl.experiments` knows what a config means; here it is only JSON.
"""

from ..checksums import read_object as read_object, was_kept as was_kept
from ._file_states import (
    file_states as file_states,
    FileState as FileState,
    WRONG as WRONG,
)
from ._provenance import code_version as code_version
from .folder import (
    is_finished as is_finished,
    is_run as is_run,
    resume_points as resume_points,
    Run as Run,
    total_sequences as total_sequences,
    was_begun as was_begun,
)
from .log import Log as Log, logged_rows as logged_rows, open_log as open_log
from .writer import (
    disk as disk,
    keep as keep,
    lock as lock,
    open_run as open_run,
    RunWriter as RunWriter,
)
