"""TensorBoard's event files, written with TensorBoard's own record writer.

It needs neither TensorFlow nor PyTorch, does not import an installed TensorFlow, and
has no thread: a failed write raises in the call that made it.
"""

import importlib
import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


# Imported by name, because only the extra installs them.
_event = importlib.import_module("tensorboard.compat.proto.event_pb2")
_summary = importlib.import_module("tensorboard.compat.proto.summary_pb2")
_text = importlib.import_module("tensorboard.plugins.text.summary_v2")
_writer = importlib.import_module("tensorboard.summary.writer.record_writer")


class TensorBoard:
    """A `Logger` that writes one event file into a folder.

    Steps are sequences seen. A resumed run has its own file. It begins with a mark that
    makes older entries from that point on invalid.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        self._config: Mapping[str, Any] | None = config
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names; two may share a second.
        name = f"{time.time():.6f}.{platform.node()}.{os.getpid()}"
        file = open(folder / f"events.out.tfevents.{name}", "xb")
        self._file = _writer.RecordWriter(file)
        self._write(0, file_version="brain.Event:2")

    def log(self, sequences: int, metrics: Mapping[str, float]) -> None:
        """Writes the numbers at once, so TensorBoard sees them."""
        if self._config is not None:
            start = _event.SessionLog(status=_event.SessionLog.START)
            self._write(sequences, session_log=start)
            # Markdown shows text as it is if it is indented by four spaces.
            lines = json.dumps(self._config, indent=2).splitlines()
            text = "\n".join(f"    {line}" for line in lines)
            self._write(sequences, summary=_text.text_pb("config", text))
            self._config = None
        Value = _summary.Summary.Value
        values = [Value(tag=name, simple_value=x) for name, x in metrics.items()]
        self._write(sequences, summary=_summary.Summary(value=values))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, step: int, **content: Any) -> None:
        event = _event.Event(wall_time=time.time(), step=step, **content)
        self._file.write(event.SerializeToString())
