"""How long to train, and when to evaluate and save, in sequences seen."""

import dataclasses
import math
from typing import ClassVar

import numpy as np

from ..checks import positive


@dataclasses.dataclass(frozen=True)
class Every:
    """At 0, `sequences`, twice that, …, and at the end."""

    sequences: int

    def __post_init__(self):
        positive("sequences", self.sequences)

    def points(self, total: int) -> list[int]:
        """The sequence counts from 0 to `total`, ascending."""
        return _clean([*range(0, total, self.sequences), total], total)


@dataclasses.dataclass(frozen=True)
class Exactly:
    """Only at the given numbers of sequences."""

    FORMERLY: ClassVar[str] = "At"

    sequences: tuple[int, ...]

    def __post_init__(self):
        if not all(isinstance(n, int) and n >= 0 for n in self.sequences):
            wanted = "sequences must be integers of at least 0"
            raise ValueError(f"{wanted}, got {self.sequences}")

    def points(self, total: int) -> list[int]:
        """The sequence counts, ascending.

        **Raises:** `ValueError` if one is larger than `total`.
        """
        if late := [n for n in self.sequences if n > total]:
            raise ValueError(f"Exactly has points after the end at {total}: {late}")
        return _clean(self.sequences, total)


@dataclasses.dataclass(frozen=True)
class LogSpaced:
    """At 0, and at `count` points from `first` to the end with equal ratios."""

    count: int
    first: int = 1000

    def __post_init__(self):
        positive("count", self.count)
        positive("first", self.first)

    def points(self, total: int) -> list[int]:
        """The sequence counts from 0 to `total`, ascending."""
        first = min(self.first, total)
        spaced = np.geomspace(max(first, 1), max(total, 1), self.count)
        return _clean([0, *np.rint(spaced).astype(int).tolist(), total], total)


@dataclasses.dataclass(frozen=True)
class Dense:
    """Every `outside` sequences, and every `inside` sequences from `start` to `stop`.

    For a phase change at a known place.
    """

    start: int
    stop: int
    inside: int
    outside: int

    def __post_init__(self):
        for name in ("stop", "inside", "outside"):
            positive(name, getattr(self, name))
        if not 0 <= self.start < self.stop:
            raise ValueError(f"need 0 <= start < stop, got {self.start}, {self.stop}")

    def points(self, total: int) -> list[int]:
        """The sequence counts from 0 to `total`, ascending.

        **Raises:** `ValueError` if the window begins after `total`.
        """
        if self.start > total:
            raise ValueError(f"Dense begins at {self.start}, after the end at {total}")
        window = range(self.start, min(self.stop, total) + 1, self.inside)
        outside = range(0, total, self.outside)
        return _clean([*outside, *window, total], total)


Schedule = Every | Exactly | LogSpaced | Dense


@dataclasses.dataclass(frozen=True)
class Training:
    """How long to train, and when to evaluate and save."""

    num_sequences: int = 1_000_000
    """The total; rounded up to whole batches."""
    batch_size: int = 32
    """Sequences per step."""
    microbatch_size: int | None = None
    """Sequences per gradient computation; divides the batch. `None` takes the whole
    batch. The result is the same up to rounding."""
    evaluate_at: Schedule = Every(10_000)
    """When to evaluate, in sequences seen; a point between two steps means the
    later."""
    checkpoint_at: Schedule = Every(10_000)
    """When to save the weights, in the same unit."""

    def __post_init__(self):
        for name in ("num_sequences", "batch_size"):
            positive(name, getattr(self, name))
        for schedule in (self.evaluate_at, self.checkpoint_at):
            schedule.points(self.num_sequences)  # Refuses points after the end.
        micro = self.microbatch_size
        if micro is None:
            return
        positive("microbatch_size", micro)
        if self.batch_size % micro:
            wanted = f"a divisor of batch_size={self.batch_size}"
            raise ValueError(f"microbatch_size must be {wanted}, got {micro}")

    @property
    def num_steps(self) -> int:
        """The number of steps."""
        return math.ceil(self.num_sequences / self.batch_size)

    @property
    def seen_sequences(self) -> int:
        """The sequences seen at the end: `num_steps` whole batches."""
        return self.num_steps * self.batch_size

    def steps_of(self, schedule: Schedule) -> set[int]:
        """The steps after which a schedule has a point; 0 is before the first step."""
        points = schedule.points(self.num_sequences)
        return {math.ceil(point / self.batch_size) for point in points}

    def sequences_of(self, schedule: Schedule) -> list[int]:
        """The sequences seen after each of `steps_of(schedule)`, in order."""
        return sorted(step * self.batch_size for step in self.steps_of(schedule))


def _clean(points, total: int) -> list[int]:
    return sorted({int(n) for n in points if n <= total})
