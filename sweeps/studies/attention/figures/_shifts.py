"""Prompts that are shifted: each sweep of limits_of_icl is a figure of its own."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from icl import plots
from icl.tasks.functions import InContextFunction

from ....figures import (
    Alike,
    Claim,
    Exceeds,
    Figure,
    Measured,
    Ordering,
    Row,
    Runs,
    Times,
    Within,
)
from ..analysis import (
    baselines,
    drawable,
    exact_noisy_error,
    prompt_task,
    robustness,
    sweeps_of,
)
from ..runs import LONGER
from ._common import (
    BASELINE_LOOKS,
    CODE,
    ERROR,
    ERROR_LABEL,
    FULL,
    NO_SOFTMAX,
    of,
    ON_LONGER,
    RATIO,
    some,
)


Setting = Callable[[InContextFunction], str]
"""The name of a setting in `sweeps_of` for a task."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One sweep of a shift.

    **Fields:**

    - `name`: Of the figure.
    - `shows`: What it shows, in one line.
    - `settings`: The settings on the horizontal axis begin with it.
    - `axis`: What the numbers on that axis are.
    - `shown`: The settings with rows, by the name in the rows.
    - `claims`: The claims.
    - `targets`: The published numbers, by the name of the row.
    - `noise`: Of the shown setting; its error is divided by that of least squares, too,
        which is exact.
    """

    name: str
    shows: str
    settings: str
    axis: str
    shown: Mapping[str, Setting]
    claims: tuple[Claim, ...]
    targets: Mapping[str, float] = dataclasses.field(default_factory=dict)
    noise: float = 0.0

    def rows(self) -> dict[str, Row]:
        """Errors and how many times the standard error they are, by kind."""
        names = ["standard", *self.shown]
        ratios = [f"{name} ÷ {other}" for name in self.shown for other in self.others]
        every = {ERROR: names, RATIO: ratios}
        return {
            row: Row(self.targets.get(row, math.nan), unit)
            for unit, ends in every.items()
            for end in ends
            for row in of(LONGER, end)
        }

    @property
    def others(self) -> tuple[str, ...]:
        """What the shown errors are divided by."""
        return ("standard", "least squares") if self.noise else ("standard",)

    def measure(self, runs: Runs) -> Measured:
        """The errors of all runs under each setting."""
        task = prompt_task(some(runs))
        swept = [name for name in sweeps_of(task) if name.startswith(self.settings)]
        shown = {name: setting(task) for name, setting in self.shown.items()}
        names = tuple(dict.fromkeys(("standard", *swept, *shown.values())))
        at = {name: k for k, name in enumerate(names)}
        values: dict[str, np.ndarray] = {}
        lines: dict[str, plots.Line] = {}
        strengths = np.array([float(name.partition("=")[2]) for name in swept])
        order = np.argsort(strengths)
        draw = lambda found, **look: plots.Line(
            strengths[order], drawable(found[[at[swept[k]] for k in order]]), **look
        )
        known = baselines(task, names)
        for (name, errors), look in zip(known.items(), BASELINE_LOOKS, strict=True):
            lines[name] = draw(errors.mean[:, 0], **look)
        for kind, folders in runs.folders.items():
            found = np.stack([robustness(each, names).mean[:, 0] for each in folders])
            standard = found[:, at["standard"]]
            values[f"{kind}: standard"] = standard
            for name, setting in shown.items():
                values[f"{kind}: {name}"] = found[:, at[setting]]
                values[f"{kind}: {name} ÷ standard"] = found[:, at[setting]] / standard
                if self.noise:
                    exact = exact_noisy_error(task, self.noise)
                    ratio = found[:, at[setting]] / exact
                    values[f"{kind}: {name} ÷ least squares"] = ratio
            lines[kind] = draw(np.median(found, 0))
        figure = plots.lines({"": lines}, x=self.axis, y=ERROR_LABEL, scale="log")
        return Measured(values, figure)

    def figure(self) -> Figure:
        """The figure of this sweep."""
        return Figure(
            f"attention/{self.name}",
            self.shows,
            f"{CODE}: a sweep",
            cost="1 h 30 min",
            about="1280 prompts, at the last point; the median of seeds is drawn",
            measure=self.measure,
            rows=self.rows(),
            claims=self.claims,
            **ON_LONGER,
        )


def _always(setting: str) -> Setting:
    return lambda task: setting


def _hurts(name: str, kinds: tuple[str, ...] = LONGER) -> tuple[Claim, ...]:
    """The error is at least twice that of unshifted prompts."""
    return tuple(Within(f"{kind}: {name} ÷ standard", low=2.0) for kind in kinds)


def _unchanged(name: str, kinds: tuple[str, ...] = LONGER) -> tuple[Claim, ...]:
    return tuple(
        Within(f"{kind}: {name} ÷ standard", low=1 / 1.5, high=1.5) for kind in kinds
    )


def _published(name: str, *errors: float, zero: float = 20.0) -> dict[str, float]:
    """limits_of_icl's errors, by kind, divided by that of predicting 0."""
    kinds = ("softmax", "multi-query", "rela", "favor-published", "rebased-published")
    return {f"{kind}: {name}": x / zero for kind, x in zip(kinds, errors, strict=True)}


SWEEPS = (
    Sweep(
        "query-scale",
        "queries longer or shorter than the context's points",
        "query-scale=",
        "length of the query ÷ that of the context's points",
        {"× 2.1": _always("query-scale=2.1")},
        (*_hurts("× 2.1"), Times("rebased-published: × 2.1", "softmax: × 2.1", 1.5)),
        # With queries 2.1 times as long, predicting 0 has 2.1² times the error.
        _published("× 2.1", 1.85, 1.06, 1.60, 1.95, 5.72, zero=20 * 2.1**2),
    ),
    Sweep(
        "constrained",
        "points in one orthant, the query anywhere",
        "constrained=",
        "points of the context in one orthant",
        # 39 of 41 points, or all but two.
        {"orthant": lambda task: f"constrained={task.points - 2}"},
        (
            *_hurts("orthant"),
            Ordering((of(NO_SOFTMAX, "orthant"), of(FULL, "orthant"))),
        ),
        _published("orthant", 0.19, 0.35, 2.13, 4.47, 6.12),
    ),
    Sweep(
        "flipped",
        "queries with the context's signs exchanged",
        "opposite=",
        "components of opposite sign",
        {"all opposite": lambda task: f"opposite={task.dim}"},
        # The published shift flipped a symmetric query: it changed nothing.
        _unchanged("all opposite"),
    ),
    Sweep(
        "orthogonal",
        "queries orthogonal to points of the context",
        "orthogonal=",
        "points that the query is orthogonal to",
        {"most orthogonal": lambda task: f"orthogonal={task.dim - 1}"},
        # The published loop stopped before the query: it changed nothing.
        _unchanged("most orthogonal"),
    ),
    Sweep(
        "subspace",
        "points in a subspace",
        "removed=",
        "components removed",
        {"half subspace": lambda task: f"removed={task.dim // 2}"},
        # Garg et al.: the error is as small as without the shift.
        tuple(Within(f"{kind}: half subspace ÷ standard", high=1.5) for kind in FULL),
        {"softmax: half subspace": 0.00057},
    ),
    Sweep(
        "skew",
        "points whose components have unequal variance",
        "skewed=",
        "exponent of the variances",
        {"skewed 2.9": _always("skewed=2.9")},
        tuple(Times(f"{kind}: skewed 2.9", "rela: skewed 2.9", 2.0) for kind in FULL),
        _published("skewed 2.9", 18.0, 25.6, 4.0, 9.8, 6.2),
    ),
    Sweep(
        "point-scale",
        "all points longer or shorter",
        "scale=",
        "length of all points",
        {"points × ⅓": _always("scale=0.333"), "points × 3": _always("scale=3")},
        _hurts("points × ⅓", FULL) + _hurts("points × 3", FULL),
        # We read Garg et al.'s errors as divided by d, whatever the points' size.
        {"softmax: points × ⅓": 0.30 * 9, "softmax: points × 3": 0.58 / 9},
    ),
    Sweep(
        "noise",
        "noisy values",
        "noise=",
        "standard deviation of the noise, as for 20 components",
        {"noise 1.1": _always("noise=1.1")},
        (
            Alike(of(LONGER, "noise 1.1 ÷ least squares"), 1.5),
            Within("softmax: noise 1.1 ÷ least squares", high=1.5),
        ),
        {
            row: error / exact_noisy_error(InContextFunction(), 1.1)
            for row, error in _published(
                "noise 1.1 ÷ least squares", 3.10, 3.68, 3.19, 3.03, 3.52
            ).items()
        },
        noise=1.1,
    ),
    Sweep(
        "bias",
        "affine functions",
        "bias=",
        "standard deviation of the bias, as for 20 components",
        {"bias 1.1": _always("bias=1.1"), "bias 4.9": _always("bias=4.9")},
        _hurts("bias 4.9"),
    ),
    Sweep(
        "sparsity",
        "functions of few components; uniform weights; a query from the context",
        "sparse=",
        "components with a weight",
        {
            "one component": _always("sparse=1"),
            "uniform weights": _always("uniform"),
            "overlapping query": _always("overlapping"),
        },
        (
            *_unchanged("uniform weights"),
            *(
                Exceeds(f"{kind}: standard", f"{kind}: overlapping query", 0.0)
                for kind in FULL
            ),
        ),
    ),
)


FIGURES = tuple(sweep.figure() for sweep in SWEEPS)
