"""What a row of a figure's table is: what was published, and when ours is alike."""

import abc
import dataclasses
import math


class Near(abc.ABC):
    """When a number is as published."""

    @abc.abstractmethod
    def holds(self, value: float, target: float) -> bool:
        """Whether a finite number is near a finite target."""

    @abc.abstractmethod
    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class WithinFactor(Near):
    """The larger one is at most a factor above the smaller one."""

    factor: float

    def holds(self, value: float, target: float) -> bool:
        low, high = sorted((value, target))
        return 0 < low and high <= self.factor * low

    def __str__(self) -> str:
        return f"within a factor of {self.factor:g}"


@dataclasses.dataclass(frozen=True)
class WithinDifference(Near):
    """They are at most so far apart."""

    difference: float

    def holds(self, value: float, target: float) -> bool:
        return abs(value - target) <= self.difference

    def __str__(self) -> str:
        return f"within {self.difference:g}"


@dataclasses.dataclass(frozen=True)
class Unit:
    """What a number is of, which values there are, and when two are alike."""

    name: str
    near: Near
    low: float = -math.inf
    high: float = math.inf

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value; infinite where there is none."""
        return self.low, self.high


# Written down before the runs with seeds from 10 on. Targets are read off figures to
# about 2 %, of one seed, and ours differ by seed: times by a fifth either way.
SEQUENCES = Unit("sequences", WithinFactor(1.25), low=0.0)
ACCURACY = Unit("accuracy", WithinDifference(0.05), low=0.0, high=1.0)
ATTENTION = Unit("attention", WithinDifference(0.05), low=-1.0, high=1.0)
NATS = Unit("nats", WithinFactor(1.25), low=0.0)
STEPS = Unit("steps", WithinFactor(1.0), low=0.0)
NUMBER = Unit("number", WithinDifference(1.0))
QUOTIENT = Unit("quotient", WithinFactor(1.25), low=0.0)


@dataclasses.dataclass(frozen=True)
class Row:
    """A number that was published, or NaN, and its unit; `inf` is an event that does
    not come."""

    target: float
    unit: Unit


def rows_of(unit: Unit, targets: dict[str, float]) -> dict[str, Row]:
    """Rows of one unit, by name."""
    return {name: Row(target, unit) for name, target in targets.items()}
