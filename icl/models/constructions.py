r"""Weights of linear self-attention that do gradient descent exactly.

From von Oswald et al. (2023), proposition 1 and section 4 (GD++). A layer does the step
$W \leftarrow W - \frac{\eta}{N} \sum_i (W x_i - y_i) x_i^\top$ for $N$ pairs.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..config import of_kind
from ..protocols import Mask
from ._positions import NoPositions
from .attention import Attention, ContextOnly, ProductAttention
from .linear_attention import LinearSelfAttention
from .stack import ResidualUpdate, StackBlock


Model = TypeVar("Model", bound=Any)


def descent_block(
    dim: int,
    context: int,
    rate: float | Float[Array, ""],
    *,
    curvature: float = 0.0,
    start: Float[ArrayLike, "output dim"] | None = None,
    queries: int = 1,
) -> StackBlock:
    r"""A layer that does one step of gradient descent on tokens $(x, y)$.

    **Arguments:**

    - `dim`, `context`: The numbers of components of $x$ and of pairs.
    - `rate`: $\eta$.
    - `curvature`: $\gamma$ of GD++: the layer also moves the points,
        $x \leftarrow (I - \gamma \sum_i x_i x_i^\top) x$. 0 is plain gradient descent.
    - `start`: The weights $W_0$ before the step, which query tokens must have as
        $-W_0 x$; 0 by default, for one output.
    - `queries`: The number of queries, the last tokens.
    """
    weights = jnp.zeros((1, dim)) if start is None else jnp.asarray(start)
    outputs = len(weights)
    if weights.shape[1] != dim:
        wanted = f"start must be [output, {dim}]"
        raise ValueError(f"{wanted}, got {[*weights.shape]}")
    points = jnp.concatenate([jnp.ones(dim), jnp.zeros(outputs)])
    moved = points if curvature else jnp.zeros_like(points)
    values = jnp.diag(moved - (1 - points)).at[dim:, :dim].set(weights)
    output = jnp.diag(-curvature * points + rate / context * (1 - points))
    selects = jnp.diag(points)
    return StackBlock(
        _attention(selects, selects, values, output, ContextOnly(queries)),
        eqx.nn.Identity(),
        None,
        ResidualUpdate(),
    )


def descent_model(blocks: Sequence[StackBlock], steps: int = 1) -> LinearSelfAttention:
    """A model of such layers, one after the other; one block is applied `steps` times.

    **Raises:** `ValueError` if there are several blocks, but not `steps`.
    """
    if len(blocks) not in (1, steps):
        wanted = f"one block or steps={steps}"
        raise ValueError(f"blocks must be {wanted}, got {len(blocks)}")
    positions = NoPositions().build(1, key=jax.random.key(0))
    mask = of_kind(blocks[0].attn.mask, ContextOnly, "descent_model")
    return LinearSelfAttention(tuple(blocks), positions, steps, mask.num_queries)


def with_block(model: Model, layer: int, block: StackBlock) -> Model:
    """A model of such blocks with another one in one layer.

    Tied layers become untied: only this application of the block is replaced.

    **Raises:** `ValueError` if there is no such layer.
    """
    if not 0 <= layer < model.num_layers:
        wanted = f"layer must be in [0, {model.num_layers})"
        raise ValueError(f"{wanted}, got {layer}")
    layers = range(model.num_layers)
    blocks = [model.blocks[i % len(model.blocks)] for i in layers]
    blocks[layer] = block
    return eqx.tree_at(lambda m: m.blocks, model, tuple(blocks))


def interpolated(
    first: StackBlock, second: StackBlock, share: float | Array, *, dim: int
) -> StackBlock:
    r"""A layer between two, by the products of their weights.

    Each layer's $W_Q^\top W_K$ is divided by $\beta$, the mean of its first `dim`
    diagonal entries, and its $P W_V$ is multiplied by $\beta$. The layer does not
    change by this, but layers that do the same become comparable. The products are then
    mixed, and the new layer has them as $W_Q$ and $P$ (von Oswald et al. 2023, appendix
    A.6).

    **Arguments:**

    - `share`: The part of the second layer, in [0, 1].
    - `dim`: The number of components of $x$.

    **Raises:** `ValueError` unless both have one head and no biases.
    """
    (qk, ov), (other_qk, other_ov) = (_products(b, dim) for b in (first, second))
    mixed_qk = (1 - share) * qk + share * other_qk
    mixed_ov = (1 - share) * ov + share * other_ov
    identity = jnp.eye(len(qk))
    mask = first.attn.mask
    attn = _attention(mixed_qk.T, identity, identity, mixed_ov, mask)
    return eqx.tree_at(lambda block: block.attn, first, attn)


def _products(
    block: StackBlock, dim: int
) -> tuple[Float[Array, "d_model d_model"], Float[Array, "d_model d_model"]]:
    attn = block.attn
    layers = attn.query, attn.key, attn.value, attn.output
    if attn.num_heads != 1 or any(layer.bias is not None for layer in layers):
        raise ValueError("only layers with one head and no biases can be mixed")
    qk = attn.query.weight.T @ attn.key.weight
    ov = attn.output.weight @ attn.value.weight
    beta = jnp.mean(jnp.diag(qk)[:dim])
    return qk / beta, beta * ov


def _attention(
    query: Array, key: Array, value: Array, output: Array, mask: Mask
) -> Attention:
    """Linear attention of one head with these matrices, `[out, in]`."""
    attn = Attention(
        query.shape[1],
        1,
        kind=ProductAttention(),
        mask=mask,
        key=jax.random.key(0),
        d_head=len(query),
    )
    where = lambda a: [a.query.weight, a.key.weight, a.value.weight, a.output.weight]
    return eqx.tree_at(where, attn, [query, key, value, output])
