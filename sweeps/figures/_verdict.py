"""The verdict on a number, a claim or a figure, in one of four words.

A claim is judged seed by seed, and holds if it does in at least four of five seeds. A
claim with a condition is judged on the seeds that meet it, if half or more do. A
figure holds if its claims and its numbers hold; it differs if only its claims hold.
"""

import enum
import math
from collections.abc import Iterable, Sequence

from ..analysis import Estimate
from ._claims import Claim, RowNumbers
from ._row import Row


class Verdict(enum.StrEnum):
    """How our result compares with the published one."""

    HOLDS = "holds"
    DIFFERS = "differs"
    """Our number is not near the published one."""
    NOT_REPRODUCED = "not reproduced"
    """We do not see the effect."""
    ABSENT = "absent"
    """Not run, not measured, or not decidable."""


SHARE = 0.8
"""The share of seeds in which a claim must hold."""


def seeds_wanted(count: int) -> int:
    """In how many of `count` seeds a claim must hold."""
    return math.ceil(SHARE * count)


def verdict_of_row(row: Row, found: Estimate) -> Verdict | None:
    """The verdict on a number over seeds; `None` if none was published.

    An event is not reproduced if it came in the paper but in half of our seeds or
    fewer, or if it came in most of our seeds but not in the paper.
    """
    if math.isnan(row.target):
        return None
    if not found.count:
        return Verdict.ABSENT
    if math.isinf(found.value) or math.isinf(row.target):
        same = found.value == row.target
        return Verdict.HOLDS if same else Verdict.NOT_REPRODUCED
    near = row.unit.near.holds(found.value, row.target)
    return Verdict.HOLDS if near else Verdict.DIFFERS


def verdict_of_claim(
    claim: Claim, each: Sequence[RowNumbers], targets: RowNumbers
) -> Verdict:
    """The verdict on a claim, from the numbers of each seed."""
    found = [claim.holds(one, targets) for one in each if claim.concerns(one, targets)]
    good, unknown = found.count(True), found.count(None)
    wanted = seeds_wanted(len(found))
    if not found or 2 * len(found) < len(each) or good < wanted <= good + unknown:
        return Verdict.ABSENT
    return Verdict.HOLDS if good >= wanted else Verdict.NOT_REPRODUCED


def verdict_of_figure(
    claims: Iterable[Verdict], rows: Iterable[Verdict | None]
) -> Verdict:
    """The verdict on a figure: the worst of its claims, else that of its numbers."""
    claims, numbers = [*claims], [row for row in rows if row is not None]
    for worst in (Verdict.NOT_REPRODUCED, Verdict.ABSENT):
        if worst in claims:
            return worst
    if not claims and not numbers:
        return Verdict.ABSENT
    other = any(each is not Verdict.HOLDS for each in numbers)
    return Verdict.DIFFERS if other else Verdict.HOLDS
