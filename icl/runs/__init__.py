"""The run folder: config, log, checkpoints, resume points, and their checksums.

`icl.experiments` knows what a config means; here it is only JSON.
"""

from ._disk import disk as disk, lock as lock
from ._file_states import (
    file_states as file_states,
    FileState as FileState,
    WRONG as WRONG,
)
from ._finished import (
    is_finished as is_finished,
    is_run as is_run,
    total_sequences as total_sequences,
    was_begun as was_begun,
)
from ._manifest import (
    keep as keep,
    read_object as read_object,
    was_kept as was_kept,
)
from ._provenance import code_version as code_version
from .folder import (
    open_run as open_run,
    resume_points as resume_points,
    Run as Run,
    RunWriter as RunWriter,
)
from .log import Log as Log, logged_rows as logged_rows, open_log as open_log
