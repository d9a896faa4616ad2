"""Claims: statements about the numbers of a figure.

Each row of the figure's table has one number. `inf` stands for an event that never came
in a run, and counts as later than any that did. NaN stands for not measured.
"""

import abc
import dataclasses
import math
from collections.abc import Iterator, Mapping


RowNumbers = Mapping[str, float]
"""The number of each row, by the row's name."""


class Claim(abc.ABC):
    """A statement about the numbers of a figure; `str` gives its text."""

    @abc.abstractmethod
    def parts(self, numbers: RowNumbers, targets: RowNumbers) -> "Iterator[Comparison]":
        """The comparisons that the claim consists of."""

    @property
    @abc.abstractmethod
    def about(self) -> tuple[str, ...]:
        """The rows that the claim is about."""

    @abc.abstractmethod
    def __str__(self) -> str: ...

    def concerns(self, numbers: RowNumbers, targets: RowNumbers) -> bool:
        """Whether the claim says anything about a seed with these numbers."""
        return True

    def holds(self, numbers: RowNumbers, targets: RowNumbers) -> bool | None:
        """Whether the claim holds; `None` if the numbers do not tell."""
        found = [part.holds for part in self.parts(numbers, targets)]
        if False in found:
            return False
        return None if None in found else True

    def against(self, numbers: RowNumbers, targets: RowNumbers) -> list[str]:
        """The texts of the comparisons that do not hold or cannot be told."""
        parts = self.parts(numbers, targets)
        return [part.text for part in parts if not part.holds]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One comparison: whether it holds, and the text to show if it does not."""

    holds: bool | None
    text: str


@dataclasses.dataclass(frozen=True)
class Ordering(Claim):
    """The rows descend; rows of the same step may be in any order."""

    steps: tuple[str | tuple[str, ...], ...]

    @property
    def about(self):
        steps = [(s,) if isinstance(s, str) else s for s in self.steps]
        return tuple(row for step in steps for row in step)

    def parts(self, numbers, targets):
        steps = [(s,) if isinstance(s, str) else s for s in self.steps]
        for upper, lower in zip(steps, steps[1:], strict=False):
            for a in upper:
                for b in lower:
                    yield _above(a, b, numbers)

    def __str__(self) -> str:
        texts = (s if isinstance(s, str) else _set(s) for s in self.steps)
        return f"ordering {' > '.join(texts)}"


@dataclasses.dataclass(frozen=True)
class Within(Claim):
    """A row lies above `low` and below `high`."""

    row: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def about(self):
        return (self.row,)

    def parts(self, numbers, targets):
        value = numbers[self.row]
        # A missing bound is infinite, and so is an event that never came.
        above, below = self.low == -math.inf, self.high == math.inf
        inside = (above or value > self.low) and (below or value < self.high)
        known = None if math.isnan(value) else inside
        reason = "was not measured" if known is None else f"is {shown(value)}"
        yield Comparison(known, f"{self.row} {reason}")

    def __str__(self) -> str:
        ends = [f"above {shown(self.low)}"] if self.low > -math.inf else []
        ends += [f"below {shown(self.high)}"] if self.high < math.inf else []
        return f"{self.row} {' and '.join(ends)}"


def _comparable(*values: float) -> bool:
    """Whether all were measured, and not all of them are events that never came."""
    return not any(map(math.isnan, values)) and math.isfinite(min(values))


@dataclasses.dataclass(frozen=True)
class Alike(Claim):
    """The largest of the rows is at most `factor` times the smallest."""

    rows: tuple[str, ...]
    factor: float

    @property
    def about(self):
        return self.rows

    def parts(self, numbers, targets):
        values = [numbers[row] for row in self.rows]
        known = _comparable(*values)
        texts = ", ".join(f"{row} {shown(numbers[row])}" for row in self.rows)
        yield Comparison(
            max(values) <= self.factor * min(values) if known else None, texts
        )

    def __str__(self) -> str:
        return f"alike within a factor of {self.factor:g}: {_set(self.rows)}"


@dataclasses.dataclass(frozen=True)
class Same(Claim):
    """The rows equal their targets, within a relative tolerance."""

    rows: tuple[str, ...]
    tolerance: float = 0.0

    @property
    def about(self):
        return self.rows

    def parts(self, numbers, targets):
        for row in self.rows:
            value, target = numbers[row], targets[row]
            near = math.isclose(value, target, rel_tol=self.tolerance)
            known = None if math.isnan(value) else value == target or near
            yield Comparison(known, f"{row} is {shown(value)}, not {shown(target)}")

    def __str__(self) -> str:
        by = f" within {100 * self.tolerance:g}%" if self.tolerance else ""
        return f"equal to the targets{by}: {_set(self.rows)}"


@dataclasses.dataclass(frozen=True)
class Exceeds(Claim):
    """A row is at least `by` above another one."""

    row: str
    other: str
    by: float

    @property
    def about(self):
        return self.row, self.other

    def parts(self, numbers, targets):
        x, y = numbers[self.row], numbers[self.other]
        known = _comparable(x, y)
        text = f"{self.row} {shown(x)}, {self.other} {shown(y)}"
        yield Comparison(x >= y + self.by if known else None, text)

    def __str__(self) -> str:
        return f"{self.row} at least {shown(self.by)} above {self.other}"


@dataclasses.dataclass(frozen=True)
class Times(Claim):
    """A row is at least `factor` times another one; an infinite row always is."""

    row: str
    other: str
    factor: float

    @property
    def about(self):
        return self.row, self.other

    def parts(self, numbers, targets):
        x, y = numbers[self.row], numbers[self.other]
        known = _comparable(x, y)
        text = f"{self.row} {shown(x)}, {self.other} {shown(y)}"
        yield Comparison(x >= self.factor * y if known else None, text)

    def __str__(self) -> str:
        return f"{self.row} at least {self.factor:g} times {self.other}"


@dataclasses.dataclass(frozen=True)
class Together(Claim):
    """Several claims as one: a seed satisfies it if all of them hold in that seed."""

    claims: tuple[Claim, ...]

    @property
    def about(self):
        return tuple(row for claim in self.claims for row in claim.about)

    def parts(self, numbers, targets):
        for claim in self.claims:
            yield from claim.parts(numbers, targets)

    def __str__(self) -> str:
        return ", and ".join(map(str, self.claims))


@dataclasses.dataclass(frozen=True)
class Given(Claim):
    """A claim about the seeds in which a condition holds. The others are ignored."""

    condition: Claim
    claim: Claim

    @property
    def about(self):
        return *self.claim.about, *self.condition.about

    def concerns(self, numbers, targets):
        return self.condition.holds(numbers, targets) is True

    def parts(self, numbers, targets):
        return self.claim.parts(numbers, targets)

    def __str__(self) -> str:
        return f"{self.claim}, given {self.condition}"


def shown(value: float) -> str:
    """A number as text: `0.713`, `742`, `292,000`."""
    if math.isnan(value):
        return "not measured"
    if math.isinf(value):
        return "not reached"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _set(rows: tuple[str, ...]) -> str:
    return rows[0] if len(rows) == 1 else "{" + ", ".join(rows) + "}"


def _above(a: str, b: str, numbers: RowNumbers) -> Comparison:
    x, y = numbers[a], numbers[b]
    if math.isnan(x) or math.isnan(y):
        missing = a if math.isnan(x) else b
        return Comparison(None, f"{missing} was not measured")
    if math.isinf(x) and math.isinf(y):
        return Comparison(None, f"neither {a} nor {b} was reached")
    return Comparison(x > y, f"{a} ({shown(x)}) is not above {b} ({shown(y)})")
