"""The loss after each step of an algorithm, or each layer of a model."""

import reprlib
from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

import opto

from ..batches import batch
from ..checks import check_scale, instance, positive
from ..tasks.regression import LinearRegression, RegressionExample
from .descent import GradientDescent


Edits = Sequence[opto.toolkit.AbstractEdit]


def predictions(
    of: Any, examples: RegressionExample, edits: Edits = ()
) -> Float[Array, "sequence step query"]:
    """The predictions for a batch's queries after 0, 1, … steps or layers.

    **Arguments:**

    - `of`: An `Algorithm`, or a model. A model is read after each layer as it is after
        the last.
    - `edits`: Of the model; an algorithm has no sites.

    **Raises:** `ValueError` for edits of an algorithm.
    """
    if hasattr(of, "blocks"):
        return layer_predictions(of, examples, edits)
    if edits:
        wanted = f"edits must be of a model: {type(of).__name__} has no sites"
        raise ValueError(f"{wanted}, got {reprlib.repr(edits)}")

    def one(x: Array, y: Array, queries: Array) -> Float[Array, "step query"]:
        return jax.vmap(lambda query: of(x, y, query), out_axes=1)(queries)

    return jax.vmap(one)(examples.context_x, examples.context_y, examples.query_x)


def layer_predictions(
    model: Any, examples: RegressionExample, edits: Edits = ()
) -> Float[Array, "sequence layer query"]:
    """What a model predicts if it is read before and after each layer.

    Every layer is read as the last one is, by the model's `read`.
    """
    sites = ["embed", *(f"blocks.{i}.resid_post" for i in range(model.num_layers))]
    inputs = examples.x, examples.y
    _, record = opto.run(model, *inputs, record=sites, edits=edits)
    count = examples.num_queries
    read = [jax.vmap(model.read)(record[site]) for site in sites]
    return jnp.stack([found.reshape(-1, count) for found in read], 1)


def curve(
    of: Any, examples: RegressionExample, edits: Edits = ()
) -> Float[Array, " step"]:
    """The loss after 0, 1, … steps or layers: half the mean squared error.

    **Arguments:** As for `predictions`.
    """
    errors = predictions(of, examples, edits) - examples.query_y[:, None]
    return 0.5 * jnp.mean(errors**2, (0, 2))


def best_rate(examples: RegressionExample, steps: int) -> Float[Array, ""]:
    r"""The rate $\eta$ with which gradient descent has the least loss on a batch.

    Its last step's loss, with the same rate for all steps. For one step it is exact:
    the loss is a parabola. For more, two searches on a grid around that rate find it
    within 0.5 %.
    """
    positive("steps", steps)
    first = predictions(GradientDescent([1.0]), examples)[:, 1]
    target = examples.query_y
    rate = jnp.vdot(first, target) / jnp.vdot(first, first)
    if steps == 1:
        return rate

    def best(rates: Float[Array, " rate"]) -> Float[Array, ""]:
        last = lambda rate: curve(GradientDescent(rate[None], steps), examples)[-1]
        return rates[jnp.nanargmin(jax.lax.map(last, rates))]

    near = best(rate * jnp.geomspace(1 / 8, 8, 50))
    return best(near * jnp.geomspace(0.92, 1.09, 35))


_Fitted = TypeVar("_Fitted", bound=eqx.Module)


def fitted(
    algorithm: _Fitted,
    task: LinearRegression,
    *,
    key: PRNGKeyArray,
    steps: int = 500,
    size: int = 2000,
    rate: float = 0.03,
) -> _Fitted:
    """The algorithm with the numbers that minimise its last step's loss on the task.

    Adam takes `steps` steps on `size` new sequences each, in logarithms of the numbers,
    so they must be positive and stay so. The rate falls to zero.

    **Raises:** `ValueError` for an algorithm without numbers, or with some that are not
    positive.
    """
    instance("task", task, LinearRegression)
    positive("steps", steps)
    positive("size", size)
    check_scale("rate", rate)
    numbers, structure = eqx.partition(algorithm, eqx.is_inexact_array)
    _check_positive(type(algorithm).__name__, jax.tree.leaves(numbers))
    logs = jax.tree.map(jnp.log, numbers)
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps))

    @jax.grad
    def slope(logs: Any, key: PRNGKeyArray) -> Float[Array, ""]:
        of: Any = eqx.combine(jax.tree.map(jnp.exp, logs), structure)
        return curve(of, batch(task, size, key=key))[-1]

    def step(carry: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        logs, state = carry
        updates, state = optimizer.update(slope(logs, key), state)
        return (optax.apply_updates(logs, updates), state), None

    start = logs, optimizer.init(logs)
    (logs, _), _ = jax.jit(lambda keys: jax.lax.scan(step, start, keys))(
        jax.random.split(key, steps)
    )
    return eqx.combine(jax.tree.map(jnp.exp, logs), structure)


def _check_positive(name: str, numbers: list[Array]) -> None:
    if not numbers:
        raise ValueError(f"algorithm must have numbers to fit, got {name} without any")
    known = (x for x in numbers if not isinstance(x, Tracer))
    for number in (value for x in known for value in np.ravel(x).tolist()):
        check_scale(f"each number of {name}", number)
