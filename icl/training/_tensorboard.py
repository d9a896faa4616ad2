"""TensorBoard's event files, written by tensorboardX.

TensorBoard's own public writer knows only scalars: it has no text, and no mark that a
run was resumed. tensorboardX needs neither TensorFlow nor PyTorch.
"""

import importlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


# Imported by name, because only the extra installs it.
_writer = importlib.import_module("tensorboardX")
# It warns of each undefined number.
logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)

# New numbers are in the file after so many seconds.
_FLUSH_SECONDS = 2


class TensorBoard:
    """A `Logger` that writes one event file into a folder.

    Steps are sequences seen. A resumed run has its own file. It begins with a mark that
    makes older entries from that point on invalid.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._config = folder, config
        self._writer: Any = None

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Writes the numbers; raises `OSError` if earlier ones could not be written."""
        if self._writer is None:
            self._writer = _writer.SummaryWriter(
                str(self._folder),
                purge_step=sequences,
                max_queue=0,  # No limit: a full queue could wait forever.
                flush_secs=_FLUSH_SECONDS,
                # TensorBoard reads files in the order of their names. Two may begin in
                # one second.
                filename_suffix=f".{time.time_ns()}",
            )
            # Markdown shows text as it is if it is indented by four spaces.
            lines = json.dumps(self._config, indent=2).splitlines()
            text = "\n".join(f"    {line}" for line in lines)
            self._writer.add_text("config", text, sequences)
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, sequences)
        self._writer.flush()

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        if self._writer is not None:
            self._writer.close()
