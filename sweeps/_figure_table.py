"""The numbers of a figure beside those published, in plain text and as JSON."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from icl.plots import Confidence

from ._table import counted, NONE, table
from .figures import Claim, Figure, Measured, shown


def figures_table(figures: Iterable[Figure]) -> str:
    """What figures there are."""
    rows = [(each.name, each.study or NONE, each.cost, each.shows) for each in figures]
    header = ("figure", "study", "at scale small takes", "shows")
    return table(rows, header, "llll")


def numbers(chosen: Figure, measured: Measured) -> dict[str, float]:
    """Each row as one number: the mean over seeds, NaN if it was not measured."""
    return {
        row: float(np.mean(measured.values.get(row, [math.nan])))
        for row in chosen.targets
    }


def verdict(chosen: Figure, measured: Measured) -> bool:
    """Whether all that is claimed holds, of the means over seeds."""
    found = numbers(chosen, measured)
    return all(claim.holds(found, chosen.targets) for claim in chosen.claims)


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
    over = f"; means over {counted(len(seeds), 'seed')}" if several else ""
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
    found = numbers(chosen, measured)
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
                "measured": [
                    *map(_finite, np.asarray(measured.values.get(row, ())).tolist())
                ],
                "mean": _finite(found[row]),
                "interval": [*map(_finite, _interval(measured, row))],
            }
            for row, target in chosen.targets.items()
        },
        "claims": {
            str(claim): claim.holds(found, chosen.targets) for claim in chosen.claims
        },
    }


def _row(row: str, chosen: Figure, measured: Measured, several: bool) -> list[str]:
    target, value = chosen.targets[row], numbers(chosen, measured)[row]
    low, high = _interval(measured, row)
    interval = f"{shown(low)} to {shown(high)}" if math.isfinite(low) else NONE
    ratio = value / target if math.isfinite(value) and target else math.nan
    return [
        row,
        NONE if math.isnan(target) else shown(target),
        _value(measured, row, value),
        *([interval] if several else []),
        f"{ratio:.2f}" if math.isfinite(ratio) else NONE,
    ]


def _value(measured: Measured, row: str, mean: float) -> str:
    """The mean; of those that were reached, if some were not, and how many are."""
    values = np.asarray(measured.values.get(row, ()), float)
    reached = values[np.isfinite(values)]
    if not math.isinf(mean) or not reached.size:
        return shown(mean)
    return f"{shown(float(reached.mean()))} in {reached.size} of {len(values)}"


def _interval(measured: Measured, row: str) -> tuple[float, float]:
    values = np.asarray(measured.values.get(row, ()), float)
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan, math.nan
    low, high = Confidence().bounds(values[None])
    return float(low[0]), float(high[0])


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _line(claim: Claim, chosen: Figure, measured: Measured, judged: bool) -> str:
    found = numbers(chosen, measured)
    if not judged:
        return f"{claim}: not judged at scale smoke, where training is too short"
    holds = claim.holds(found, chosen.targets)
    if holds:
        return f"{claim}: holds{_in_seeds(claim, chosen, measured)}"
    verb = "cannot be told" if holds is None else "does not hold"
    reasons = "; ".join(claim.against(found, chosen.targets))
    return f"{claim}: {verb}{_in_seeds(claim, chosen, measured)}: {reasons}"


def _in_seeds(claim: Claim, chosen: Figure, measured: Measured) -> str:
    """In how many of the seeds it does, if there are several."""
    count = max((len(values) for values in measured.values.values()), default=1)
    if count < 2:
        return ""
    nothing = np.full(count, math.nan)
    each = (
        {row: float(measured.values.get(row, nothing)[k]) for row in chosen.targets}
        for k in range(count)
    )
    good = sum(claim.holds(found, chosen.targets) is True for found in each)
    return f" (in {good} of {count} seeds)"
