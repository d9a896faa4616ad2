"""When to evaluate and when to keep a checkpoint, in sequences seen."""

import dataclasses

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
class At:
    """Only at the given numbers of sequences."""

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
            raise ValueError(f"At has points after the end at {total}: {late}")
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


Schedule = Every | At | LogSpaced | Dense


def _clean(points, total: int) -> list[int]:
    return sorted({int(n) for n in points if n <= total})
