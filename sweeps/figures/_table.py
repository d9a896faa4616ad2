"""The numbers of a figure beside those published, in plain text and as JSON."""

import math
from collections.abc import Iterable
from typing import Any

from ..analysis import Estimate
from ..text import counted, NONE, table
from ._claims import Claim, shown
from ._figure import Figure, Measured


def figures_table(figures: Iterable[Figure]) -> str:
    """What figures there are."""
    rows = [(each.name, each.study or NONE, each.cost, each.shows) for each in figures]
    header = ("figure", "study", "at scale small takes", "shows")
    return table(rows, header, "llll")


def estimates(chosen: Figure, measured: Measured) -> dict[str, Estimate]:
    """Each row over seeds; of none if it was not measured."""
    return {row: Estimate.of(measured.values.get(row, ())) for row in chosen.targets}


def numbers(chosen: Figure, measured: Measured) -> dict[str, float]:
    """Each row as one number, NaN if it was not measured.

    The mean over seeds, or their median where it was not reached in all of them.
    """
    return {row: each.value for row, each in estimates(chosen, measured).items()}


def verdict(chosen: Figure, measured: Measured) -> bool:
    """Whether all that is claimed holds."""
    return all(holds(claim, chosen, measured) for claim in chosen.claims)


def holds(claim: Claim, chosen: Figure, measured: Measured) -> bool | None:
    """Whether a claim does, of all seeds; `None` if it cannot be told."""
    found, each = numbers(chosen, measured), by_seed(chosen, measured)
    return claim.over_seeds(found, each, chosen.targets)


def by_seed(chosen: Figure, measured: Measured) -> list[dict[str, float]]:
    """The rows of each seed; NaN for what was not measured."""
    count = max((len(values) for values in measured.values.values()), default=0)
    nothing = [math.nan] * count
    return [
        {row: float(measured.values.get(row, nothing)[k]) for row in chosen.targets}
        for k in range(count)
    ]


def report(
    chosen: Figure,
    measured: Measured,
    seeds: tuple[int, ...],
    about: Iterable[str],
    judged: bool,
) -> str:
    """Target against measured, and whether what is claimed holds.

    **Arguments:**

    - `about`: Lines on where the numbers are from.
    - `judged`: Whether training was long enough to tell.
    """
    several = len(seeds) > 1
    header = ["", "target", "measured", *(["95% interval"] if several else []), "ratio"]
    rows = [_row(row, chosen, measured, several) for row in chosen.targets]
    head = [f"{chosen.name}: {chosen.shows}", f"({chosen.source})", *about]
    lines = [_line(claim, chosen, measured, judged) for claim in chosen.claims]
    over = f"; over {counted(len(seeds), 'seed')}" if several else ""
    text = table(rows, header, "l" + "r" * (len(header) - 1))
    return "\n".join([*head, "", f"{chosen.about}{over}", text, "", *lines])


def as_json(
    chosen: Figure,
    measured: Measured,
    seeds: tuple[int, ...],
    scale: str,
    about: Iterable[str],
) -> dict[str, Any]:
    """The same as data; what is not a number, or was not reached, is null."""
    every = estimates(chosen, measured)
    return {
        "figure": chosen.name,
        "source": chosen.source,
        "scale": scale if chosen.study else "",
        "about": [*about],
        "unit": chosen.about,
        "seeds": [*seeds] if chosen.study else [],
        "rows": {
            row: {
                "target": _finite(target),
                "measured": [*map(_finite, measured.values.get(row, ()))],
                "value": _finite(every[row].value),
                "interval": [_finite(every[row].low), _finite(every[row].high)],
                "reached": every[row].known,
                "seeds": every[row].count,
            }
            for row, target in chosen.targets.items()
        },
        "claims": {
            str(claim): {
                "holds": holds(claim, chosen, measured),
                "seeds": _good(claim, chosen, measured),
            }
            for claim in chosen.claims
        },
    }


def _row(row: str, chosen: Figure, measured: Measured, several: bool) -> list[str]:
    target, found = chosen.targets[row], estimates(chosen, measured)[row]
    known = math.isfinite(found.low)
    interval = f"{shown(found.low)} to {shown(found.high)}" if known else NONE
    ratio = found.value / target if math.isfinite(found.value) and target else math.nan
    return [
        row,
        NONE if math.isnan(target) else shown(target),
        _value(found, len(measured.values.get(row, ()))),
        *([interval] if several else []),
        f"{ratio:.2f}" if math.isfinite(ratio) else NONE,
    ]


def _value(found: Estimate, seeds: int) -> str:
    """The mean; or the median, and in how many seeds it was reached."""
    if found.known in (0, found.count):
        of = f", of {found.count} of them" if 0 < found.count < seeds else ""
        return shown(found.value) + of
    reached = f"in {found.known} of {found.count}"
    return reached if math.isinf(found.value) else f"{shown(found.value)}, {reached}"


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _line(claim: Claim, chosen: Figure, measured: Measured, judged: bool) -> str:
    if not judged:
        return f"{claim}: not judged at scale smoke, where training is too short"
    found = holds(claim, chosen, measured)
    good, count = _good(claim, chosen, measured)
    seeds = f" (in {good} of {count} seeds)" if count > 1 else ""
    if found:
        return f"{claim}: holds{seeds}"
    verb = "cannot be told" if found is None else "does not hold"
    reasons = claim.against(numbers(chosen, measured), chosen.targets)
    why = f": {'; '.join(reasons)}" if reasons else ""
    return f"{claim}: {verb}{seeds}{why}"


def _good(claim: Claim, chosen: Figure, measured: Measured) -> tuple[int, int]:
    """In how many of the seeds it holds, and how many there are."""
    each = by_seed(chosen, measured)
    return sum(claim.holds(one, chosen.targets) is True for one in each), len(each)
