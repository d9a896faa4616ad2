"""Models trained on ordered or noisy contexts.

Whether the order of the pairs changes what they predict, and how they do beside the
descent that is best with their noise.
"""

from ....figures import (
    dotted,
    Exceeds,
    Figure,
    Measured,
    of_each,
    rows_of,
    Runs,
    Within,
)
from .. import analysis
from ..analysis import ORDERS
from ..noise.runs import NOISES, SEEDS, SEPARATED
from ..order.runs import FEW, ORDERS as TRAINED
from ._common import AREA, LOSS, RATIO


_ORDERED = {
    f"{model}, {order}": f"ordered-{model}-{order}-seed-{{seed}}"
    for model in ("lsa", "copy")
    for order in TRAINED
}


def _sensitivity(runs: Runs) -> Measured:
    values = of_each(runs, analysis.by_order)
    shown = {k: v for k, v in values.items() if not k.endswith("predictions")}
    label = "loss, by order of training and of evaluation"
    return Measured(values, dotted(shown, _BY_ORDER, label))


_BY_ORDER = {
    **rows_of(RATIO, [f"{name}: difference of predictions" for name in _ORDERED]),
    **rows_of(LOSS, [f"{name}: {order}" for name in _ORDERED for order in ORDERS]),
}

# Noise

_LSA = {f"lsa, {name}": f"lsa-{name}-seed-{{seed}}" for name in NOISES}
_SEPARATED = {
    f"{model}, {name}": f"{model}-{name}-seed-{{seed}}"
    for model in ("lsa", "transformer")
    for name in SEPARATED
}
_PARTS = ("influence", "influence, control")
_LAYERS = ("layer 0", "layer 1", "layer 2", "control")


def _robustness(runs: Runs) -> Measured:
    values = of_each(runs, analysis.beside_descent)
    shown = {k: v for k, v in values.items() if not k.endswith(": loss")}
    label = "loss, divided by that of one step of descent"
    return Measured(values, dotted(shown, _RATIOS, label))


def _separation(runs: Runs) -> Measured:
    values = of_each(runs, analysis.separation)
    shown = {k: values[k] for k in _AREAS if k in values}
    return Measured(values, dotted(shown, _AREAS, "AUROC; .5 is chance"))


_RATIOS = {
    **rows_of(LOSS, [f"{name}: loss" for name in _LSA]),
    **rows_of(RATIO, [f"{name}: ÷ GD" for name in _LSA]),
    **rows_of(RATIO, [f"{name}: ÷ clean rate" for name in _LSA]),
}
_AREAS = rows_of(
    AREA,
    [
        f"{name}: {what}"
        for name in _SEPARATED
        for what in (_PARTS if name.startswith("lsa") else (*_PARTS, *_LAYERS))
    ],
)

FIGURES = (
    Figure(
        "gd/order_sensitivity",
        "without positions, the order of pairs has no effect; with them, it may",
        "the public study of order and noise reports an effect for both models",
        cost="8 min",
        about="losses on the same tasks in several orders; noise for the last two",
        study="order",
        runs=_ORDERED,
        measure=_sensitivity,
        rows=_BY_ORDER,
        claims=(
            Within("lsa, random: difference of predictions", high=1e-5),
            Within("lsa, small_to_large: difference of predictions", high=1e-5),
            Exceeds(
                "copy, small_to_large: difference of predictions",
                "lsa, small_to_large: difference of predictions",
                1e-3,
            ),
        ),
        fresh=FEW,
    ),
    Figure(
        "gd/noise_robustness",
        "with noise, linear self-attention is as good as descent with the best rate",
        "the public study of order and noise judges against one fixed rate",
        cost="4 min",
        about="losses divided by that of one step with the best rate for the noise",
        study="noise",
        runs=_LSA,
        measure=_robustness,
        rows=_RATIOS,
        claims=(
            *(Within(f"{name}: ÷ GD", low=0.97, high=1.02) for name in _LSA),
            # The model finds the rate for its noise: it beats the clean one.
            Within("lsa, pairs-0.5: ÷ clean rate", high=0.97),
        ),
        fresh=SEEDS,
    ),
    Figure(
        "gd/attention_separation",
        "one linear layer cannot tell noisy pairs from clean ones",
        "the public study of order and noise",
        cost="10 min",
        about="AUROC of low influence or attention; with shuffled masks as a control",
        study="noise",
        runs=_SEPARATED,
        measure=_separation,
        rows=_AREAS,
        claims=(
            *(
                Within(f"lsa, {name}: influence", low=0.48, high=0.52)
                for name in SEPARATED
            ),
            *(
                Within(f"transformer, {name}: control", low=0.47, high=0.53)
                for name in SEPARATED
            ),
        ),
        fresh=SEEDS,
    ),
)
