"""The weights that a run starts from, if not from a seed."""

import dataclasses
import os
from collections.abc import Callable
from typing import TypeVar

from jaxtyping import PyTree

from ..runs import Run


Model = TypeVar("Model", bound=PyTree)


@dataclasses.dataclass(frozen=True)
class Start:
    """The weights of another run's checkpoint. The optimizer's state is new."""

    run: str
    """The folder of a run whose model has the same shape."""
    checkpoint: int = -1
    """Sequences seen at that checkpoint; -1 is the last."""

    def __post_init__(self):
        if not isinstance(self.run, str) or not self.run:
            raise ValueError(f"run must be a run folder, got {self.run!r}")

    def into(self, model: Model) -> Model:
        """The model with these weights.

        **Raises:** `ValueError` if there is no such checkpoint, or if its model has
        another shape.
        """
        try:
            return Run(self.run).load(model, self.checkpoint)
        except ValueError as error:
            raise ValueError(f"start: {error}") from None

    def pinned(self, last: Callable[[str], int]) -> "Start":
        """The same with an absolute path and the number of the checkpoint.

        It then means the same from another working directory, and after that run has
        continued.

        **Arguments:**

        - `last`: Gives the last checkpoint of the run at an absolute path.
        """
        path = os.path.abspath(self.run)
        return Start(path, last(path) if self.checkpoint == -1 else self.checkpoint)
