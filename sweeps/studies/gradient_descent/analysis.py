"""Measurements on the runs of these studies.

All losses are half the mean squared error. A run is judged on new tasks, other ones for
each seed, and gradient descent is judged on the same ones.
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
from icl.baselines.gradient_descent import one_step
from icl.baselines.least_squares import bayes
from icl.batches import batch
from icl.measures.descent import descent_cosine, descent_difference
from icl.measures.descent_terms import descent_terms, loss_without_values
from icl.measures.layer_losses import interpolation_losses, layer_losses
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


@functools.lru_cache(maxsize=64)
def drawn(
    task: LinearRegression, size: int = FRESH, seed: int = 0
) -> RegressionExample:
    """New sequences of a task, the same at every call with a seed."""
    key = jax.random.fold_in(jax.random.key(seed), FRESH)
    return jax.jit(lambda key: batch(task, size, key=key))(key)


@functools.cache
def rate_of(task: LinearRegression, steps: int) -> float:
    """The best single rate of gradient descent; exact for one step."""
    if steps == 1:
        return one_step(task)[0]
    return float(_best_rate(drawn(task), steps))


@functools.cache
def descent_curve(
    task: LinearRegression, steps: int, seed: int = 0
) -> Float[np.ndarray, " step"]:
    """The losses of gradient descent with its best single rate, on a seed's tasks."""
    of = GradientDescent([rate_of(task, steps)], steps)
    return np.asarray(_curve(of, drawn(task, seed=seed)))


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
def plus_plus(task: LinearRegression, steps: int) -> tuple[float, float]:
    r"""GD++ with one pair $(\\eta, \\gamma)$, fitted: both numbers."""
    start = GDPlusPlus([10.0], [0.13], steps)
    found = fitted(start, task, key=jax.random.key(0), steps=150, size=500, rate=0.05)
    return float(found.rates[0]), float(found.curvatures[0])


def plus_plus_loss(task: LinearRegression, steps: int, seed: int) -> float:
    """Its loss on a seed's tasks."""
    rate, curvature = plus_plus(task, steps)
    of = GDPlusPlus([rate], [curvature], steps)
    return float(_curve(of, drawn(task, seed=seed))[-1])


def zero_loss(task: LinearRegression, seed: int = 0) -> float:
    """The loss of predicting 0 on a seed's tasks."""
    return float(0.5 * jnp.mean(drawn(task, seed=seed).query_y ** 2))


def bayes_loss(task: LinearRegression) -> float:
    """The loss of the Bayes predictor."""
    return float(_curve(bayes(task), drawn(task))[-1])


def measured(
    folder: Path,
    measures: Mapping[str, icl.measures.AnyMeasure],
    task: LinearRegression | None = None,
    size: int = FRESH,
    at: int = -1,
) -> dict[str, np.ndarray]:
    """Measures of a run's model on new sequences.

    **Arguments:** `task`: The task that draws them; `None` is that of training. `at`:
    The checkpoint; -1 is the last.
    """
    trained = icl.load(folder)
    examples = drawn(task or task_of(folder), size, seed_of(folder))
    found = icl.replay(trained, measures, data=examples, checkpoints=[at])
    return {name: np.asarray(found[name][0], np.float64) for name in measures}


def task_of(folder: Path) -> LinearRegression:
    """The task on which a run was trained."""
    task: Any = icl.load(folder).experiment.task
    return task


def seed_of(folder: Path) -> int:
    """The evaluation seed of a run, which draws the tasks that it is judged on."""
    return icl.load(folder).experiment.eval_seed


def final_loss(folder: Path, task: LinearRegression | None = None) -> float:
    """The loss of the final model on new sequences."""
    return float(measured(folder, {"loss": layer_losses()}, task)["loss"][-1])


# Linear self-attention


def beside_steps(folder: Path, steps: int) -> dict[str, float]:
    """A model of linear self-attention beside as many steps of gradient descent.

    **Returns:** `loss`, `÷ GD` (divided by the loss of descent on the same tasks), `÷
    GD++` for more than one step, `escaped` (1 or 0), `cosine`, `difference` of
    predictions, `straight` and `swapped` (`icl.measures.descent_terms`), losses with `y
    not in keys` and `y not in values` and of predicting `zero`, and `barrier`, the most
    by which the loss on the way to the construction is above both its ends.
    """
    task, seed = task_of(folder), seed_of(folder)
    settings: tuple[Any, ...] = (rate_of(task, steps), 0.0)
    if steps > 1:
        settings = plus_plus(task, steps)
    measures: dict[str, Any] = {
        "loss": layer_losses(),
        "cosine": descent_cosine(steps, *settings),
        "difference": descent_difference(steps, *settings),
        "terms": descent_terms(),
        "y not in keys": loss_without_values("k"),
        "y not in values": loss_without_values("v"),
        "path": interpolation_losses(*settings),
    }
    found = measured(folder, measures)
    loss = float(found["loss"][-1])
    ratio = loss / float(descent_curve(task, steps, seed)[-1])
    path, terms = found["path"], found["terms"]
    values = {
        "loss": loss,
        "÷ GD": ratio,
        "escaped": float(ratio < ESCAPED),
        "cosine": float(found["cosine"]),
        "difference": float(found["difference"]),
        "straight": float(terms[0]),
        "swapped": float(terms[1]),
        "zero": zero_loss(task, seed),
        "y not in keys": float(found["y not in keys"]),
        "y not in values": float(found["y not in values"]),
        "barrier": float(path.max() - max(path[0], path[-1])),
    }
    if steps > 1:
        values["÷ GD++"] = loss / plus_plus_loss(task, steps, seed)
    return values


def out_of_distribution(folder: Path) -> Float[np.ndarray, " scale"]:
    """The loss at each of `SCALES`, divided by that of predicting 0."""
    return measured(folder, {"ood": ood_curve(SCALES)})["ood"]


def descent_out_of_distribution(
    task: LinearRegression, seed: int
) -> Float[np.ndarray, " scale"]:
    """The same for one step of descent with its best rate at scale 1."""
    examples, rate = drawn(task, seed=seed), rate_of(task, 1)

    def ratio(scale: float) -> float:
        scaled = dataclasses.replace(
            examples, x=scale * examples.x, y=scale * examples.y
        )
        loss = curve(GradientDescent([rate]), scaled)[-1]
        return float(loss / (0.5 * jnp.mean(scaled.query_y**2)))

    return np.array([ratio(scale) for scale in SCALES])


def escaped(folder: Path) -> bool:
    """Whether a one-layer run is as good as a step of descent; see `ESCAPED`."""
    descent = descent_curve(task_of(folder), 1, seed_of(folder))[-1]
    return final_loss(folder) < ESCAPED * float(descent)


def rolled_out(folder: Path) -> Float[np.ndarray, "step statistic"]:
    """The statistics of the first layer applied again and again (`roll_out`)."""
    return measured(folder, {"rolled": roll_out(ROLLED, DAMPING)})["rolled"]


def descent_rolled_out(
    task: LinearRegression, seed: int
) -> Float[np.ndarray, "step statistic"]:
    """The same for gradient descent with the best rate of one step, damped."""
    examples = drawn(task, seed=seed)
    of = GradientDescent([DAMPING * rate_of(task, 1)], ROLLED)
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
    examples = drawn(task, seed=seed_of(folder))
    model: Any = icl.load(folder).model
    found = np.asarray(jax.jit(jax.vmap(model))(examples.x, examples.y))
    errors = found - np.asarray(examples.query_y[:, 0])
    return float(0.5 * np.mean(errors**2)), found


# Noise


def beside_descent(folder: Path) -> dict[str, float]:
    """A model trained with noise beside the descent that is best with that noise.

    **Returns:** `loss`; `÷ GD`, divided by the loss of one step with the rate that is
    best with this noise, on the same tasks; `÷ clean rate`, with the best rate without
    noise; `escaped`, 1 or 0; and `exact`, the expected loss of that step.
    """
    task, seed = task_of(folder), seed_of(folder)
    clean = rate_of(dataclasses.replace(task, pair_noise=None), 1)
    best = float(descent_curve(task, 1, seed)[-1])
    other = float(curve(GradientDescent([clean]), drawn(task, seed=seed))[-1])
    loss = final_loss(folder)
    return {
        "loss": loss,
        "÷ GD": loss / best,
        "÷ clean rate": loss / other,
        "escaped": float(loss < ESCAPED * best),
        "exact": one_step(task)[1],
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
    worst = attention["shuffled"][np.nanargmax(np.abs(attention["shuffled"] - 0.5))]
    every = {**found, **layers, "control": worst}
    return {name: float(value) for name, value in every.items()}


# Layers


def by_layer(folders: Sequence[Path]) -> Float[np.ndarray, "seed layer"]:
    """The loss read after 0, 1, … layers of each run, at its best checkpoint."""
    measures = {"x": layer_losses()}
    return np.array(
        [measured(f, measures, at=best_checkpoint(f))["x"] for f in folders]
    )


def best_checkpoint(folder: Path) -> int:
    """The sequences seen at the checkpoint with the least loss on the set `train`."""
    run = icl.Run(folder)
    losses = run.log.evaluations["train"]["loss"]
    means = losses.reshape(len(losses), -1).mean(1)
    at = dict(zip(map(int, run.log.events), means, strict=True))
    return min((seen for seen in run.checkpoints if seen in at), key=at.__getitem__)


def layer_errors(folder: Path) -> tuple[list[float], list[float]]:
    """The mean squared error after each layer on new tasks, and its standard error."""
    return _errors(icl.load(folder).model, drawn(task_of(folder)))


def descent_errors(
    task: LinearRegression, steps: int
) -> tuple[list[float], list[float]]:
    """The same for gradient descent with the best single rate for all its steps."""
    of = GradientDescent([rate_of(task, steps)], steps)
    return _errors(of, drawn(task))


def _errors(of: Any, examples: RegressionExample) -> tuple[list[float], list[float]]:
    found = np.asarray(_predictions(of, examples), np.float64)
    wanted = np.asarray(examples.query_y)[:, None]
    errors = np.mean((found - wanted) ** 2, -1)  # [sequence, step]
    return errors.mean(0).tolist(), (errors.std(0) / len(errors) ** 0.5).tolist()
