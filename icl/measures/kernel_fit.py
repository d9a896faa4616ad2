"""Whether a model's logits are those of a kernel regression on the context.

For tasks of `icl.tasks.discrimination`. A kernel with parameters is fitted to the
logits of the first half of the batch, and judged on the second half.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

import opto

from ..baselines.discrimination import weighted_labels
from ..checks import check_one_of
from ..tasks.discrimination import DiscriminationExample
from ._measure import OfModel
from ._text import register
from .discrimination import correlation, of_discrimination


Kernel = Literal["published", "dot", "bilinear", "gaussian"]
Centre = Literal["origin", "context"]

_STEPS = 500


@register
def kernel_fit(kernel: Kernel = "published", centre: Centre = "origin") -> OfModel:
    r"""Pearson's correlation of the logits with a kernel regression, in [-1, 1].

    The regression is $\sum_i \operatorname{softmax}_i(s(x, x_i)) (2 y_i - 1)$ for the
    query $x$ (Nadaraya 1964, Watson 1964). A high value does not say that the model
    computes it: compare with `kernel_fit` of the Bayes log-odds, `bayes_kernel_fit`.

    **Arguments:**

    - `kernel`: $s$. `"published"` is $x \cdot x_i / \sqrt{d_\text{head}}$. The others
        are fitted: `"dot"` is $\beta\, x \cdot x_i$, `"bilinear"` is $x^\top M x_i$,
        and `"gaussian"` is $-\beta |x - x_i|^2$.
    - `centre`: Where points are measured from: the `"origin"`, or the mean of the
        `"context"`.
    """
    logits = lambda model, task, batch, edits: opto.run(
        model, *task.inputs(batch), edits=edits
    )[0]
    return _fit(kernel, centre, logits, "logit")


@register
def bayes_kernel_fit(
    kernel: Kernel = "published", centre: Centre = "origin"
) -> OfModel:
    """`kernel_fit` of the exact Bayes log-odds in place of the model's logits.

    This is what a model shows that is Bayes-optimal.
    """
    return _fit(kernel, centre, lambda *args: args[2].log_odds, "Bayes log-odds")


def _fit(kernel: Kernel, centre: Centre, target: Callable, what: str) -> OfModel:
    check_one_of("kernel", kernel, Kernel)
    check_one_of("centre", centre, Centre)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        d_head = model.blocks[0].attn.head_weights.key.shape[-2]
        wanted = jax.lax.stop_gradient(target(model, task, batch, edits))
        return fitted_correlation(kernel, centre, batch, wanted, scale=d_head**-0.5)

    label = f"r of the {what} with a\n{kernel} kernel, centred at the {centre}"
    return of_discrimination(fn, "", label, ("blocks",))


def fitted_correlation(
    kernel: Kernel,
    centre: Centre,
    batch: DiscriminationExample,
    wanted: Float[Array, " sequence"],
    *,
    scale: float,
) -> Float[Array, ""]:
    """The correlation on the second half of a batch, for the best kernel on the first.

    A fit starts from `scale` and takes 500 steps of Adam on minus the correlation.
    """
    half = len(wanted) // 2
    scores, start = _KERNELS[kernel]
    first = jax.tree.map(lambda x: x[:half], batch)
    second = jax.tree.map(lambda x: x[half:], batch)

    def agreement(parameters: Any, batch: DiscriminationExample, wanted: Array):
        def one(example: DiscriminationExample) -> Float[Array, ""]:
            x, query = example.context_x, example.query_x
            if centre == "context":
                x, query = x - x.mean(0), query - x.mean(0)
            return weighted_labels(scores(parameters, x, query), example.context_y)

        return correlation(jax.vmap(one)(batch), wanted)

    parameters = start(scale, batch.query_x.shape[-1])
    if kernel != "published":
        parameters = _ascended(lambda p: agreement(p, first, wanted[:half]), parameters)
    return agreement(parameters, second, wanted[half:])


def _ascended(value: Callable[[Array], Array], start: Array) -> Array:
    """The parameters after Adam's steps uphill."""
    optimizer = optax.adam(optax.cosine_decay_schedule(0.1, _STEPS))
    slope = jax.grad(lambda parameters: -value(parameters))

    def step(carry: Any, _: None):
        parameters, state = carry
        updates, state = optimizer.update(slope(parameters), state)
        return (parameters + updates, state), None

    (found, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), length=_STEPS)
    return found


def _dot(log_scale: Array, x: Array, query: Array) -> Array:
    return jnp.exp(log_scale) * x @ query


def _bilinear(matrix: Array, x: Array, query: Array) -> Array:
    return x @ (query @ matrix)


def _gaussian(log_scale: Array, x: Array, query: Array) -> Array:
    return -jnp.exp(log_scale) * jnp.sum((x - query) ** 2, -1)


# For each kernel its scores, and its first parameters from a scale and a dimension.
_KERNELS: dict[str, tuple[Callable, Callable]] = {
    "published": (_dot, lambda scale, dim: jnp.log(scale)),
    "dot": (_dot, lambda scale, dim: jnp.log(scale)),
    "bilinear": (_bilinear, lambda scale, dim: scale * jnp.eye(dim)),
    "gaussian": (_gaussian, lambda scale, dim: jnp.log(scale / 2)),
}
