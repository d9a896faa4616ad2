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
    Together,
    Within,
)
from .. import analysis
from ..analysis import ORDERS
from ..noise.runs import NOISES, SEEDS, SEPARATED
from ..order.runs import FEW, ORDERS as TRAINED
from ._common import AREA, FRACTION, LOSS, RATIO, where_escaped


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
    shown = {k: v for k, v in values.items() if "÷" in k}
    label = "loss, divided by that of one step of descent"
    return Measured(values, dotted(shown, _RATIOS, label))


def _separation(runs: Runs) -> Measured:
    values = of_each(runs, analysis.separation)
    shown = {k: values[k] for k in _AREAS if k in values}
    return Measured(values, dotted(shown, _AREAS, "AUROC; .5 is chance"))


# Exact, for one step with the best rate.
_EXACT = {
    "clean": 0.2062,
    "values-0.25": 0.2139,
    "values-0.5": 0.2210,
    "pairs-0.25": 0.2740,
    "pairs-0.5": 0.3486,
}
_RATIOS = {
    **rows_of(FRACTION, [f"{name}: escaped" for name in _LSA]),
    **rows_of(LOSS, {f"lsa, {noise}: loss": x for noise, x in _EXACT.items()}),
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
            # The source reports an effect for both models. Without positions there can
            # be none: the sum over pairs does not depend on their order.
            Within("lsa, small_to_large: difference of predictions", low=1e-3),
            Within("copy, small_to_large: difference of predictions", low=1e-3),
        ),
        fresh=FEW,
    ),
    Figure(
        "gd/noise_robustness",
        "with noise, linear self-attention is as good as descent with the best rate",
        "the public study of order and noise judges against one fixed rate",
        cost="2 h",
        about="losses divided by that of one step with the best rate for the noise",
        study="noise",
        runs=_LSA,
        measure=_robustness,
        rows=_RATIOS,
        claims=(
            *(
                claim
                for name in _LSA
                for claim in where_escaped(
                    name, Within(f"{name}: ÷ GD", low=0.97, high=1.03)
                )
            ),
            # The model finds the rate for its noise: it beats the clean one.
            *where_escaped(
                "lsa, pairs-0.5", Within("lsa, pairs-0.5: ÷ clean rate", high=0.97)
            ),
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
            # Written when the runs had been seen: the controls alone could not fail, as
            # even an untrained model meets them.
            *(
                Together(
                    (
                        Within(f"transformer, {name}: control", low=0.47, high=0.53),
                        Exceeds(
                            f"transformer, {name}: influence",
                            f"lsa, {name}: influence",
                            0.05,
                        ),
                    )
                )
                for name in SEPARATED
            ),
        ),
        fresh=SEEDS,
    ),
)
