"""Linear self-attention beside gradient descent, seed by seed."""

import functools

import numpy as np

from icl import plots

from ....figures import by_seed, dotted, Figure, Measured, Row, rows_of, Runs, Within
from .. import analysis
from ..analysis import SCALES
from ..order.runs import SEEDS
from ._common import (
    constant,
    COSINE,
    DESCENT,
    FAR_LOSS,
    FRACTION,
    LOSS,
    NAN,
    over_seeds,
    PAPER,
    PLAIN,
    PURPLE,
    RATIO,
)


_MODELS = {"lsa-1": 1, "lsa-2": 2}
_RUNS = {name: f"{name}-seed-{{seed}}" for name in _MODELS}


def _alignment(runs: Runs) -> Measured:
    values: dict[str, np.ndarray] = {}
    for name, folders in runs.folders.items():
        steps = _MODELS[name]
        found = by_seed(folders, functools.partial(analysis.beside_steps, steps=steps))
        escaped = found["escaped"] > 0
        if steps > 1:  # Descent has more loss than GD++, which the model finds.
            task = analysis.task_of(folders[0])
            _, curvature, loss = analysis.plus_plus(task, steps)
            values[f"GD++ {steps}: loss"] = constant(loss, escaped)
            values[f"GD++ {steps}: curvature"] = constant(curvature, escaped)
            found["÷ GD++"] = found["loss"] / loss
        # Seeds in the other basin are counted, never averaged with the rest.
        values[f"{name}: escaped"] = found.pop("escaped")
        for what in ("loss", "÷ GD", "÷ GD++", "cosine", "difference"):
            if what in found:
                values[f"{name}: {what}"] = np.where(escaped, found[what], NAN)
        if escaped.any():
            worst = found["÷ GD" if steps == 1 else "÷ GD++"][escaped].max()
            least = found["cosine"][escaped].min()
            values[f"{name}: worst ratio of escaped"] = constant(worst, escaped)
            values[f"{name}: least cosine of escaped"] = constant(least, escaped)
            most = found["barrier"][escaped].max()
            values[f"{name}: largest barrier of escaped"] = constant(most, escaped)
    values = {name: values[name] for name in _ALIGNMENT if name in values}
    shown = {k: v for k, v in values.items() if "of escaped" not in k}
    label = "loss, quotient, cosine or share of seeds"
    return Measured(values, dotted(shown, _ALIGNMENT, label, known="known"))


_ALIGNMENT = {
    **rows_of(FRACTION, ["lsa-1: escaped"]),
    **rows_of(LOSS, {"lsa-1: loss": 0.2075}),
    **rows_of(RATIO, {"lsa-1: ÷ GD": 1.0}),
    **rows_of(RATIO, ["lsa-1: worst ratio of escaped"]),
    **rows_of(COSINE, {"lsa-1: cosine": 0.9993}),
    **rows_of(COSINE, ["lsa-1: least cosine of escaped"]),
    **rows_of(PLAIN, {"lsa-1: difference": 0.020}),
    **rows_of(PLAIN, ["lsa-1: largest barrier of escaped"]),
    **rows_of(FRACTION, ["lsa-2: escaped"]),
    **rows_of(LOSS, {"lsa-2: loss": 0.1134, "GD++ 2: loss": 0.1113}),
    **rows_of(PLAIN, {"GD++ 2: curvature": 0.175}),
    **rows_of(RATIO, ("lsa-2: ÷ GD++", "lsa-2: worst ratio of escaped")),
    **rows_of(COSINE, ("lsa-2: cosine", "lsa-2: least cosine of escaped")),
    **rows_of(PLAIN, ("lsa-2: difference", "lsa-2: largest barrier of escaped")),
}


def _basin(runs: Runs) -> Measured:
    values: dict[str, np.ndarray] = {}
    for name, folders in runs.folders.items():
        found = by_seed(folders, functools.partial(analysis.beside_steps, steps=1))
        zero = analysis.zero_loss(analysis.task_of(folders[0]))
        stuck = found["escaped"] < 1
        values[f"{name}: escaped"] = found["escaped"]
        ratio = found["swapped"] / found["straight"]
        lost = found["y not in keys"] / zero
        for part, chosen in (("stuck", stuck), ("escaped", ~stuck)):
            there = lambda x, chosen=chosen: np.where(chosen, x, NAN)
            values[f"{name}, {part}: swapped ÷ straight term"] = there(ratio)
            values[f"{name}, {part}: loss ÷ zero predictor"] = there(
                found["loss"] / zero
            )
            values[f"{name}, {part}: the same, keys without y"] = there(lost)
        if stuck.any():
            values[f"{name}: least ratio of stuck"] = constant(ratio[stuck].min(), lost)
            values[f"{name}: least lost of stuck"] = constant(lost[stuck].min(), lost)
        if not stuck.all():
            most = ratio[~stuck].max()
            values[f"{name}: largest ratio of escaped"] = constant(most, lost)
    values = {name: values[name] for name in _BASIN if name in values}
    shown = {k: v for k, v in values.items() if " of " not in k and "term" not in k}
    label = "share of seeds, or loss divided by that of predicting 0"
    return Measured(values, dotted(shown, _BASIN, label))


def _basin_rows() -> dict[str, Row]:
    rows = {}
    for name in ("lsa-1", "lsa-1-wide"):
        rows |= rows_of(FRACTION, [f"{name}: escaped"])
        for part in ("stuck", "escaped"):
            of = f"{name}, {part}: "
            rows |= rows_of(RATIO, [f"{of}swapped ÷ straight term"])
            rows |= rows_of(RATIO, [f"{of}loss ÷ zero predictor"])
            rows |= rows_of(RATIO, [f"{of}the same, keys without y"])
        worst = ("least ratio of stuck", "least lost of stuck")
        worst = (*worst, "largest ratio of escaped")
        rows |= rows_of(RATIO, [f"{name}: {what}" for what in worst])
    return rows


_BASIN = _basin_rows()


def _ood(runs: Runs) -> Measured:
    folders = runs.folders["lsa-1"]
    task = analysis.task_of(folders[0])
    losses = np.array([analysis.final_loss(folder) for folder in folders])
    escaped = losses < analysis.ESCAPED * analysis.descent_curve(task, 1)[0][-1]
    found = np.array([analysis.out_of_distribution(folder) for folder in folders])
    descent = analysis.descent_out_of_distribution(task)
    zero = analysis.zero_loss(task)
    values = {}
    for k, scale in enumerate(SCALES):
        at_scale = zero * scale**2
        values[f"α = {scale:g}"] = np.where(escaped, found[:, k] * at_scale, NAN)
        values[f"GD, α = {scale:g}"] = constant(descent[k] * at_scale, losses)
        far = np.abs(np.log(found[escaped, k] / descent[k])).max(initial=0.0)
        most = float(np.exp(far)) if escaped.any() else NAN
        values[f"largest factor from GD, α = {scale:g}"] = constant(most, losses)
    return Measured({k: values[k] for k in _OOD}, _ood_figure(found[escaped], descent))


def _ood_figure(found: np.ndarray, descent: np.ndarray) -> plots.DrawnFigure:
    x = np.array(SCALES)
    curves = {"Gradient descent": plots.Line(x, descent, **DESCENT)}
    if len(found):
        each = over_seeds(found)
        mean = plots.Line(x, *each, colour=PURPLE, marker="+")
        curves["Trained Transformer"] = mean
    curves["predicting 0"] = plots.Line(x, np.ones_like(x), colour="0.6", dashed=True)
    label = "Loss, divided by that of predicting 0"
    return plots.lines({"": curves}, x="scale of the points α", y=label, scale="log")


_OOD = {
    **rows_of(
        FAR_LOSS,
        {
            **{"α = 0.5": 0.082, "α = 1": 0.210, "α = 1.5": 1.229, "α = 2": 8.57},
            **{"α = 3": NAN, "GD, α = 0.5": 0.079, "GD, α = 1": 0.203},
            **{"GD, α = 1.5": 1.223, "GD, α = 2": 8.54, "GD, α = 3": NAN},
        },
    ),
    **rows_of(RATIO, [f"largest factor from GD, α = {scale:g}" for scale in SCALES]),
}

FIGURES = (
    Figure(
        "gd/alignment_metrics",
        "trained linear self-attention does a step of GD, and two steps of GD++",
        f"{PAPER}; figures 2 and 3",
        cost="5 min",
        about="of seeds that escaped the second basin; 10,000 new tasks",
        study="order",
        runs=_RUNS,
        measure=_alignment,
        rows=_ALIGNMENT,
        claims=(
            Within("lsa-1: worst ratio of escaped", low=0.98, high=1.01),
            Within("lsa-1: least cosine of escaped", low=0.99),
            Within("lsa-2: worst ratio of escaped", low=0.97, high=1.03),
            Within("GD++ 2: curvature", low=0.166, high=0.184),
            # The way to the construction has no hill.
            Within("lsa-1: largest barrier of escaped", high=0.005),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "gd/second_basin",
        "some seeds stay in a basin where keys read y: a step in one direction",
        "not in the papers",
        cost="4 min",
        about="linear self-attention of one layer, on points in ±1/2 and in ±1",
        study="order",
        runs={name: f"{name}-seed-{{seed}}" for name in ("lsa-1", "lsa-1-wide")},
        measure=_basin,
        rows=_BASIN,
        claims=(
            Within("lsa-1-wide: least ratio of stuck", low=3.0),
            Within("lsa-1-wide: largest ratio of escaped", high=0.33),
            # Without y in the keys, a stuck model predicts no better than 0.
            Within("lsa-1-wide: least lost of stuck", low=0.99),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "gd/ood_curve",
        "on larger points, trained linear self-attention diverges as descent does",
        f"{PAPER}; figure 2",
        cost="3 min",
        about="the loss on points of another scale α, of seeds that escaped",
        study="order",
        runs={"lsa-1": _RUNS["lsa-1"]},
        measure=_ood,
        rows=_OOD,
        claims=(
            Within("largest factor from GD, α = 0.5", high=1.1),
            Within("largest factor from GD, α = 1", high=1.01),
            Within("largest factor from GD, α = 2", high=1.1),
        ),
        fresh=SEEDS,
    ),
)
