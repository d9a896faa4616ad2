"""The numbers of a figure beside those published, in plain text and as JSON."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis import Estimate
from ..text import counted, NONE, table
from ._claims import Claim, RowNumbers, shown
from ._figure import Figure, Measured
from ._verdict import (
    seeds_wanted,
    Verdict,
    verdict_of_claim,
    verdict_of_figure,
    verdict_of_row,
)


NOT_REACHED = "not reached"


def figures_table(figures: Iterable[Figure]) -> str:
    """The table of all figures."""
    rows = [(each.name, each.study or NONE, each.cost, each.shows) for each in figures]
    header = ("figure", "study", "time at scale small", "shows")
    return table(rows, header, "llll")


@dataclasses.dataclass(frozen=True)
class Judged:
    """What was measured for a figure, and its verdicts."""

    chosen: Figure
    measured: Measured
    seeds: tuple[int, ...]
    """The seeds of the runs, in the order of the measured values."""

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The estimate of each row over all seeds; without seeds if not measured."""
        return {
            name: Estimate.of(self.measured.values.get(name, ()), row.unit.bounds)
            for name, row in self.chosen.rows.items()
        }

    @property
    def rows(self) -> dict[str, Verdict | None]:
        """The verdict of each row; `None` if no number was published."""
        found = self.estimates
        return {
            name: verdict_of_row(row, found[name])
            for name, row in self.chosen.rows.items()
        }

    @property
    def claims(self) -> Mapping[Claim, Verdict]:
        """The verdict of each claim."""
        each, targets = self.judged_seeds, self.chosen.targets
        return {
            claim: verdict_of_claim(claim, each, targets)
            for claim in self.chosen.claims
        }

    @property
    def verdict(self) -> Verdict:
        """The verdict of the figure."""
        return verdict_of_figure(self.claims.values(), self.rows.values())

    @property
    def judged_seeds(self) -> list[dict[str, float]]:
        """The row numbers of each judged seed; NaN if not measured."""
        chosen = self.chosen.judged(self.seeds)
        places = [k for k, seed in enumerate(self.seeds) if seed in chosen]
        values, missing = self.measured.values, [math.nan] * len(self.seeds)
        return [
            {row: float(values.get(row, missing)[k]) for row in self.chosen.rows}
            for k in places
        ]

    def concerned(self, claim: Claim) -> list[dict[str, float]]:
        """The row numbers of the judged seeds that a claim is about."""
        targets = self.chosen.targets
        return [one for one in self.judged_seeds if claim.concerns(one, targets)]

    def good(self, claim: Claim) -> int:
        """In how many of these seeds a claim holds."""
        targets = self.chosen.targets
        return sum(claim.holds(one, targets) is True for one in self.concerned(claim))


def report(found: Judged, about: Iterable[str], judged: bool) -> str:
    """The numbers beside their targets, and the verdicts of the claims, as text.

    **Arguments:**

    - `about`: Lines on where the numbers are from.
    - `judged`: Whether training was long enough to judge.
    """
    chosen, several = found.chosen, len(found.seeds) > 1
    interval = ["95% interval"] if several else []
    header = ["", "target", "measured", *interval, "ratio"]
    header += ["verdict"] if judged else []
    rows = [_row(name, found, several, judged) for name in chosen.rows]
    head = [f"{chosen.name}: {chosen.shows}", f"({chosen.source})", *about]
    over = f"; over {counted(len(found.seeds), 'seed')}" if several else ""
    align = "l" + "r" * (3 + several) + ("l" if judged else "")
    text = table(rows, header, align)
    last = f"figure: {found.verdict}" if judged else ""
    lines = [_line(claim, found, judged) for claim in chosen.claims]
    parts = [*head, "", f"{chosen.about}{over}", text, "", _rule(found), *lines, last]
    return "\n".join(parts).rstrip()


def as_json(
    found: Judged,
    scale: str,
    about: Iterable[str],
    *,
    chosen_seeds: bool,
    own_data: bool,
) -> dict[str, Any]:
    """The same as JSON data; NaN is null, and infinity is `NOT_REACHED`.

    **Arguments:**

    - `about`: Lines on where the numbers are from, without paths of this machine.
    - `chosen_seeds`: Whether the user chose some of the seeds.
    - `own_data`: Whether the user gave the classes.
    """
    chosen, measured = found.chosen, found.measured
    estimates, verdicts = found.estimates, found.rows
    told = lambda verdict: verdict if chosen.is_judged_at(scale) else None
    return {
        "figure": chosen.name,
        "source": chosen.source,
        "scale": scale if chosen.study else "",
        "about": [*about],
        "unit": chosen.about,
        "seeds": [*found.seeds] if chosen.study else [],
        "judged": [*chosen.judged(found.seeds)] if chosen.study else [],
        "chosen": chosen_seeds,
        "own_data": own_data,
        "rows": {
            name: {
                "target": _json(row.target),
                "unit": row.unit.name,
                "measured": [*map(_json, measured.values.get(name, ()))],
                "value": _json(estimates[name].value),
                "interval": [
                    _json(estimates[name].low),
                    _json(estimates[name].high),
                ],
                "reached": estimates[name].known,
                "seeds": estimates[name].count,
                "verdict": told(verdicts[name]),
            }
            for name, row in chosen.rows.items()
        },
        "claims": {
            str(claim): {
                "verdict": told(verdict),
                "seeds": found.good(claim),
                "of": len(found.concerned(claim)),
            }
            for claim, verdict in found.claims.items()
        },
        "verdict": told(found.verdict),
    }


def _row(name: str, found: Judged, several: bool, judged: bool) -> list[str]:
    target, estimate = found.chosen.targets[name], found.estimates[name]
    known = math.isfinite(estimate.low)
    interval = f"{shown(estimate.low)} to {shown(estimate.high)}" if known else NONE
    value = estimate.value
    ratio = value / target if math.isfinite(value) and target else math.nan
    return [
        name,
        NONE if math.isnan(target) else shown(target),
        _value(estimate, len(found.measured.values.get(name, ()))),
        *([interval] if several else []),
        f"{ratio:.2f}" if math.isfinite(ratio) else NONE,
        *([found.rows[name] or NONE] if judged else []),
    ]


def _value(found: Estimate, seeds: int) -> str:
    """The mean; if some seeds never reached it, the median and how many did."""
    if found.known in (0, found.count):
        of = f", of {found.count} of them" if 0 < found.count < seeds else ""
        return shown(found.value) + of
    reached = f"in {found.known} of {found.count}"
    return reached if math.isinf(found.value) else f"{shown(found.value)}, {reached}"


def _json(value: Any) -> float | str | None:
    if math.isnan(value):
        return None
    return NOT_REACHED if math.isinf(value) else float(value)


def _rule(found: Judged) -> str:
    seeds = found.chosen.judged(found.seeds)
    if len(seeds) < 2:
        return "claims:"
    names = ", ".join(map(str, seeds))
    return f"claims, in {seeds_wanted(len(seeds))} or more of the seeds {names}:"


def _line(claim: Claim, found: Judged, judged: bool) -> str:
    if not judged:
        return f"{claim}: not judged at scale smoke, where training is too short"
    verdict, each = found.claims[claim], found.concerned(claim)
    several = len(found.judged_seeds) > 1
    seeds = f" (in {found.good(claim)} of {counted(len(each), 'seed')})"
    seeds = seeds if several else ""
    line = f"{claim}: {verdict}{seeds}"
    if verdict is Verdict.HOLDS:
        return line
    reasons = _reasons(claim, each, found.chosen.targets)
    return f"{line}: {reasons}" if reasons else line


def _reasons(claim: Claim, each: Sequence[RowNumbers], targets: RowNumbers) -> str:
    """What does not hold, for the first seed where something does not."""
    against = (claim.against(one, targets) for one in each)
    return "; ".join(next((found for found in against if found), []))
