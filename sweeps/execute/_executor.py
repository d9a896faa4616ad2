"""What runs jobs: this process, other processes of this machine, or Slurm."""

from collections.abc import Sequence
from typing import Protocol

from ..folder import Folder
from ..plan import Machine
from ._job import Work


class Executor(Machine, Protocol):
    """Where jobs run."""

    name: str

    def start(self, folder: Folder, works: Sequence[Work], study: str) -> bool:
        """Trains or submits the jobs; returns whether all went well."""
        ...
