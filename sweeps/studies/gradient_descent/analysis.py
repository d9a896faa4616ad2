"""Measurements on the runs of these studies.

All losses are half the mean squared error. A run is judged on new tasks, the same for
all runs, and gradient descent is judged on them, too.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import icl
from icl.baselines.curves import best_rate, curve, fitted, predictions
from icl.baselines.descent import GDPlusPlus, GradientDescent
from icl.baselines.expected_descent import ExpectedDescent
from icl.baselines.least_squares import bayes
from icl.batches import batch
from icl.measures.descent import descent_cosine, descent_difference
from icl.measures.descent_terms import descent_terms, loss_without_values
from icl.measures.layer_losses import (
    constructed_losses,
    interpolation_losses,
    layer_losses,
)
from icl.measures.noisy_pairs import influence_auroc, noise_auroc
from icl.measures.out_of_range import ood_curve
from icl.measures.roll_out import roll_out, spread
from icl.tasks.regression import (
    EasyToHard,
    HardToEasy,
    LinearRegression,
    NoisyValues,
    Ordering,
    RandomOrder,
    RegressionExample,
    SmallToLargeNorm,
)


FRESH = 10_000
"""How many new tasks a model is judged on."""
SCALES = (0.5, 1.0, 1.5, 2.0, 3.0)
"""The factors on points at which models are judged."""
ROLLED = 50
"""How often one layer is applied."""
DAMPING = 0.75
"""The factor on what it adds then."""
ESCAPED = 1.1
"""A run has escaped if its loss is below this many times that of as many steps.
The one-layer models that did not were near 2 in the runs before the claims. A run that
leaves the basin late may still be on its way: its swapped term is small."""

_KEY = 2026
_MOST = 1000  # Sequences for measures with gradients.

ORDERS: dict[str, tuple[Ordering, bool]] = {
    "random": (RandomOrder(), False),
    "small_to_large": (SmallToLargeNorm(), False),
    "easy_to_hard": (EasyToHard(), True),
    "hard_to_easy": (HardToEasy(), True),
}
"""The orders of evaluation; the last two need noise on values."""
EVALUATION_NOISE = NoisyValues(0.5, 0.5)


# Sequences are arguments. XLA would compute with constants itself, and very slowly.
_best_rate = eqx.filter_jit(best_rate)
_curve = eqx.filter_jit(curve)
_predictions = eqx.filter_jit(predictions)


@functools.cache
def drawn(task: LinearRegression, size: int = FRESH) -> RegressionExample:
    """New sequences of a task, the same at every call."""
    return jax.jit(lambda key: batch(task, size, key=key))(jax.random.key(_KEY))


@functools.cache
def descent_curve(
    task: LinearRegression, steps: int
) -> tuple[Float[np.ndarray, " step"], float]:
    """The losses of gradient descent with its best single rate, and that rate."""
    few, examples = drawn(task, _MOST * 3), drawn(task)
    rate = float(_best_rate(few, steps))
    losses = _curve(GradientDescent([rate], steps), examples)
    return np.asarray(losses), rate


def counts(most: int) -> list[int]:
    """The numbers of steps of descent that are shown: powers of 2, and the most."""
    return sorted({*(2**k for k in range(most.bit_length())), most})


def expected_losses(
    task: LinearRegression, most: int
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, " count"]]:
    """The least expected losses of gradient descent after each of `counts` steps.

    **Returns:** With the best single rate for that many steps, and with the best rate
    for each step. These are lower envelopes: no one choice of rates has all of them.
    """
    descent = ExpectedDescent(task)
    one = [descent.loss(np.full(k, descent.best_rate(k))) for k in counts(most)]
    each = [descent.loss(descent.best_rates(k)) for k in counts(most)]
    return np.array(one), np.array(each)


@functools.cache
def plus_plus(task: LinearRegression, steps: int) -> tuple[float, float, float]:
    r"""GD++ with one pair $(\\eta, \\gamma)$, fitted: both numbers, and its loss."""
    start = GDPlusPlus([10.0], [0.13], steps)
    found = fitted(
        start, task, key=jax.random.key(_KEY), steps=150, size=500, rate=0.05
    )
    loss = _curve(found, drawn(task))[-1]
    return float(found.rates[0]), float(found.curvatures[0]), float(loss)


def zero_loss(task: LinearRegression) -> float:
    """The loss of predicting 0."""
    return float(0.5 * jnp.mean(drawn(task).query_y ** 2))


def bayes_loss(task: LinearRegression) -> float:
    """The loss of the Bayes predictor."""
    return float(_curve(bayes(task), drawn(task))[-1])


def measured(
    folder: Path,
    measures: Mapping[str, icl.measures.AnyMeasure],
    task: LinearRegression | None = None,
    size: int = FRESH,
) -> dict[str, np.ndarray]:
    """Measures of a run's final model on new sequences.

    **Arguments:** `task`: The task that draws them; `None` is that of training.
    """
    trained = icl.load(folder)
    examples = drawn(task or task_of(folder), size)
    found = icl.replay(trained, measures, data=examples, checkpoints=[-1])
    return {name: np.asarray(found[name][0], np.float64) for name in measures}


def task_of(folder: Path) -> LinearRegression:
    """The task on which a run was trained."""
    task: Any = icl.load(folder).experiment.task
    return task


def final_loss(folder: Path, task: LinearRegression | None = None) -> float:
    """The loss of the final model on new sequences."""
    return float(measured(folder, {"loss": layer_losses()}, task)["loss"][-1])


# Linear self-attention


def beside_steps(folder: Path, steps: int) -> dict[str, float]:
    """A model of linear self-attention beside as many steps of gradient descent.

    **Returns:** `loss`, `÷ GD` (divided by the loss of descent on the same tasks),
    `escaped` (1 or 0), `cosine`, `difference` of predictions, `straight` and `swapped`
    (`icl.measures.descent_terms`), and losses: `y not in keys`, `y not in values`,
    `constructed` (the worst of those with one layer replaced), and `barrier`, the most
    by which the loss on the way to the construction is above both its ends.
    """
    task = task_of(folder)
    losses, rate = descent_curve(task, steps)
    settings: tuple[Any, ...] = (rate, 0.0)
    if steps > 1:
        settings = plus_plus(task, steps)[:2]
    found = measured(
        folder,
        {
            "loss": layer_losses(),
            "cosine": descent_cosine(steps, *settings),
            "difference": descent_difference(steps, *settings),
            "terms": descent_terms(),
            "y not in keys": loss_without_values("k"),
            "y not in values": loss_without_values("v"),
            "constructed": constructed_losses(*settings),
            "path": interpolation_losses(*settings),
        },
    )
    loss = float(found["loss"][-1])
    ratio = loss / float(losses[-1])
    path, terms = found["path"], found["terms"]
    return {
        "loss": loss,
        "÷ GD": ratio,
        "escaped": float(ratio < ESCAPED),
        "cosine": float(found["cosine"]),
        "difference": float(found["difference"]),
        "straight": float(terms[0]),
        "swapped": float(terms[1]),
        "y not in keys": float(found["y not in keys"]),
        "y not in values": float(found["y not in values"]),
        "constructed": float(found["constructed"].max()),
        "barrier": float(path.max() - max(path[0], path[-1])),
    }


def out_of_distribution(folder: Path) -> Float[np.ndarray, " scale"]:
    """The loss at each of `SCALES`, divided by that of predicting 0."""
    return measured(folder, {"ood": ood_curve(SCALES)})["ood"]


def descent_out_of_distribution(
    task: LinearRegression, steps: int = 1
) -> Float[np.ndarray, " scale"]:
    """The same for gradient descent with its best rate at scale 1."""
    examples, (_, rate) = drawn(task), descent_curve(task, steps)

    def ratio(scale: float) -> float:
        scaled = dataclasses.replace(
            examples, x=scale * examples.x, y=scale * examples.y
        )
        loss = curve(GradientDescent([rate], steps), scaled)[-1]
        return float(loss / (0.5 * jnp.mean(scaled.query_y**2)))

    return np.array([ratio(scale) for scale in SCALES])


def rolled_out(folder: Path) -> Float[np.ndarray, "step statistic"]:
    """The statistics of the first layer applied again and again (`roll_out`)."""
    return measured(folder, {"rolled": roll_out(ROLLED, DAMPING)})["rolled"]


def descent_rolled_out(task: LinearRegression) -> Float[np.ndarray, "step statistic"]:
    """The same for gradient descent with the best rate of one step, damped."""
    examples, (_, rate) = drawn(task), descent_curve(task, 1)
    of = GradientDescent([DAMPING * rate], ROLLED)
    losses = 0.5 * (predictions(of, examples)[..., 0] - examples.query_y) ** 2
    return np.asarray(spread(losses, examples))


# Order


def by_order(folder: Path) -> dict[str, float]:
    """The loss on the same pairs in each of `ORDERS`.

    First `difference of predictions`: the largest root mean square difference between
    two orders of the same tasks.
    """
    found: dict[str, float] = {}
    effect = 0.0
    for noisy in (False, True):
        given = {
            name: _predicted(folder, ordered(task_of(folder), name))
            for name, (_, noise) in ORDERS.items()
            if noise == noisy
        }
        found |= {name: loss for name, (loss, _) in given.items()}
        first, second = (answers for _, answers in given.values())
        effect = max(effect, float(np.sqrt(np.mean((first - second) ** 2))))
    return {"difference of predictions": effect, **found}


def ordered(task: LinearRegression, name: str) -> LinearRegression:
    """A task in one of `ORDERS`."""
    order, noise = ORDERS[name]
    pair_noise = EVALUATION_NOISE if noise else None
    return dataclasses.replace(task, ordering=order, pair_noise=pair_noise)


def _predicted(
    folder: Path, task: LinearRegression
) -> tuple[float, Float[np.ndarray, " sequence"]]:
    examples = drawn(task)
    model: Any = icl.load(folder).model
    found = np.asarray(jax.jit(jax.vmap(model))(examples.x, examples.y))
    errors = found - np.asarray(examples.query_y[:, 0])
    return float(0.5 * np.mean(errors**2)), found


# Noise


def beside_descent(folder: Path) -> dict[str, float]:
    """A model trained with noise beside the descent that is best with that noise.

    **Returns:** `loss`; `÷ GD`, divided by the loss of one step with the rate that is
    best with this noise; `÷ clean rate`, with the best rate without noise.
    """
    task = task_of(folder)
    clean = descent_curve(dataclasses.replace(task, pair_noise=None), 1)[1]
    losses, _ = descent_curve(task, 1)
    examples = drawn(task)
    other = float(curve(GradientDescent([clean]), examples)[-1])
    loss = final_loss(folder)
    return {
        "loss": loss,
        "÷ GD": loss / float(losses[-1]),
        "÷ clean rate": loss / other,
    }


def separation(folder: Path) -> dict[str, float]:
    """AUROCs: how well a model tells noisy pairs from clean ones (.5 is chance).

    `influence` and its control with shuffled masks; and for models with shares of
    attention `layer 0`, `layer 1`, … and the largest `control` of a layer.
    """
    control = influence_auroc("shuffled")
    given = {"influence": influence_auroc(), "influence, control": control}
    found = measured(folder, given, size=_MOST)
    try:
        attention = measured(
            folder,
            {"noisy": noise_auroc(), "shuffled": noise_auroc("shuffled")},
            size=2 * _MOST,
        )
    except ValueError:  # Its rows are signed.
        return {name: float(value) for name, value in found.items()}
    layers = {f"layer {k}": value for k, value in enumerate(attention["noisy"])}
    worst = attention["shuffled"][np.argmax(np.abs(attention["shuffled"] - 0.5))]
    every = {**found, **layers, "control": worst}
    return {name: float(value) for name, value in every.items()}


# Layers


def by_layer(
    folders: Sequence[Path],
) -> Float[np.ndarray, "seed layer"]:
    """The loss read after 0, 1, … layers of each run."""
    return np.array([measured(f, {"x": layer_losses()})["x"] for f in folders])


def layer_errors(folder: Path) -> tuple[list[float], list[float]]:
    """The loss after each layer on new tasks, and its standard error."""
    return _errors(icl.load(folder).model, drawn(task_of(folder)))


def descent_errors(
    task: LinearRegression, steps: int
) -> tuple[list[float], list[float]]:
    """The same for gradient descent with the best single rate for all its steps."""
    of = GradientDescent([descent_curve(task, steps)[1]], steps)
    return _errors(of, drawn(task))


def _errors(of: Any, examples: RegressionExample) -> tuple[list[float], list[float]]:
    found = np.asarray(_predictions(of, examples), np.float64)
    wanted = np.asarray(examples.query_y)[:, None]
    losses = 0.5 * np.mean((found - wanted) ** 2, -1)  # [sequence, step]
    return losses.mean(0).tolist(), (losses.std(0) / len(losses) ** 0.5).tolist()
