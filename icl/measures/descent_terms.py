r"""Two ways in which a layer of linear self-attention can do a step of descent.

With $y$ read by the values, a layer's prediction is $x^\top A \sum_i x_i y_i$ with $A
= -(W_Q^\top W_K)_{xx} (P W_V)_{yy}$: a step of gradient descent, if $A$ is a multiple
of the identity. It may also read $y$ by the keys and $x$ by the values. Then $A =
-(W_Q^\top W_K)_{xy} (P W_V)_{yx}$ has rank 1: a step in a single direction.
"""

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

import opto

from ..checks import check_one_of
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import check_linear, half_error, of_regression
from ._text import register


Reads = Literal["k", "v"]


@register
def descent_terms() -> OfModel:
    r"""How large both terms of the first layer's step are: `[straight or swapped]`.

    The Frobenius norms of both matrices $A$: $y$ read by the values, and by the keys.
    Gradient descent has $\sqrt d\, \eta / N$ and 0.
    """

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        return jnp.stack([jnp.linalg.norm(term) for term in terms(model)])

    label = "size of the step's terms"
    needs = ("blocks",)
    return OfModel(fn, "straight_or_swapped", label, reads="weights", needs=needs)


@register
def loss_without_values(reads: Reads = "k") -> OfModel:
    """The loss if the first layer's keys do not see the pairs' values $y$.

    They are taken from a run in which all values are 0.

    **Arguments:** `reads`: What does not see them: keys, `"k"`, or values, `"v"`.
    """
    check_one_of("reads", reads, Reads)
    site = f"blocks.0.attn.{reads}"

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        zeros = jnp.zeros_like(batch.y)
        _, record = opto.run(model, batch.x, zeros, record=[site], edits=edits)
        patch = opto.Patch(site, {site: record[site]})
        return half_error(model, batch, [*edits, patch])

    what = "keys" if reads == "k" else "values"
    return of_regression(fn, "", f"loss if {what} do not see y")


def terms(model: Any) -> tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]]:
    """The matrices $A$ of the first layer: with $y$ read by values, and by keys.

    **Raises:** `ValueError` for another model, several heads or biases.
    """
    check_linear(model)
    attn = model.blocks[0].attn
    layers = attn.query, attn.key, attn.value, attn.output
    if attn.num_heads != 1 or any(layer.bias is not None for layer in layers):
        raise ValueError("it needs layers with one head and no biases")
    qk = attn.query.weight.T @ attn.key.weight
    ov = attn.output.weight @ attn.value.weight
    return -ov[-1, -1] * qk[:-1, :-1], -jnp.outer(qk[:-1, -1], ov[-1, :-1])
