"""Multi-head attention of any kind; every step is a site."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from opto import identity, Tap
from opto.circuits import HeadWeights

from ...protocols import AttentionConfig, Mask
from .._init import linear
from .._layers import per_token, RMSNorm
from .._positions import AbstractPositions
from ._kind import AbstractAttention, AbstractMixingAttention, by_head


# By site: what each head reads, and what it would read unedited; both normalised.
Reads = dict[
    str, tuple[Float[Array, "head seq d_model"], Float[Array, "head seq d_model"]]
]


class Attention(eqx.Module):
    """Self-attention of one sequence. Weights are `[out, in]`."""

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    output: eqx.nn.Linear
    kind: AbstractAttention
    num_heads: int = eqx.field(static=True)
    num_kv_heads: int = eqx.field(static=True)
    mask: Mask = eqx.field(static=True)
    query_norm: RMSNorm | None = None
    key_norm: RMSNorm | None = None

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        kind: AttentionConfig,
        mask: Mask,
        key: PRNGKeyArray,
        num_kv_heads: int | None = None,
        qkv_bias: bool = False,
        scale: float | None = None,
        init_scale: float = 1.0,
        output_bias: bool = False,
        d_head: int | None = None,
        head_norm: Callable[[int], RMSNorm] | None = None,
    ):
        """**Arguments:**

        - `d_model`: Width of the residual stream, divisible by `num_heads` unless
            `d_head` is given.
        - `num_heads`: Heads of dimension `d_head`.
        - `kind`: How queries, keys and values are combined.
        - `mask`: Which tokens a token sees.
        - `num_kv_heads`: Number of key and value heads. Consecutive heads share one. It
            divides `num_heads`; `None` is as many as `num_heads`.
        - `qkv_bias`: Whether queries, keys and values have a bias.
        - `scale`: The factor on the scores; `None` uses the kind's own factor.
        - `init_scale`: The factor on the initial weights.
        - `output_bias`: Whether the output has a bias.
        - `d_head`: Width of a head; `None` is `d_model / num_heads`.
        - `head_norm`: Makes the norm of each head's queries, and that of its keys.
        """
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        q, k, v, o = jax.random.split(key, 4)
        d_head = d_model // num_heads if d_head is None else d_head
        width, kv_width = num_heads * d_head, kv_heads * d_head
        settings = {"scale": init_scale}
        self.query = linear(d_model, width, bias=qkv_bias, key=q, **settings)
        self.key = linear(d_model, kv_width, bias=qkv_bias, key=k, **settings)
        self.value = linear(d_model, kv_width, bias=qkv_bias, key=v, **settings)
        self.output = linear(width, d_model, bias=output_bias, key=o, **settings)
        # Do not split the key in five: the other four keys must be as in older runs.
        kind_key = jax.random.fold_in(key, 4)
        self.kind = kind.build(num_heads, d_head, scale=scale, key=kind_key)
        self.num_heads, self.num_kv_heads = num_heads, kv_heads
        self.mask = mask
        if head_norm is not None:
            self.query_norm, self.key_norm = head_norm(d_head), head_norm(d_head)

    @property
    def head_weights(self) -> HeadWeights:
        """Each head's own part of the matrices, for `opto.circuits`; without biases."""
        d_model, kind = self.query.in_features, self.kind
        q, k, v = (
            layer.weight.reshape(heads, -1, d_model)
            for layer, heads in (
                (self.query, self.num_heads),
                (self.key, self.num_kv_heads),
                (self.value, self.num_kv_heads),
            )
        )
        output = self.output.weight.reshape(d_model, self.num_heads, -1).swapaxes(0, 1)
        additive = not isinstance(kind, AbstractMixingAttention)
        # Norms of queries and keys come between the weights and the scores.
        bilinear = kind.bilinear and self.query_norm is None
        name = kind.name if bilinear == kind.bilinear else "attention with head norms"
        return HeadWeights(q, k, v, output, bilinear, name, additive)

    def __call__(
        self,
        x: Float[Array, "seq d_model"] | Int[Array, " seq"],
        positions: AbstractPositions,
        *,
        reads: Reads | None = None,
        start: int = 0,
        real: Bool[Array, " seq"] | None = None,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        """The attention's output for the tokens from position `start` on.

        `x` has ids if queries, keys and values are tables. For `q_in`, `k_in` and
        `v_in`, `reads` has what each head reads and what it would read unedited, if
        these differ. No token sees one that is not `real`.
        """
        reads, kv_axis = reads or {}, self.kv_axis
        queries, keys = slice(start, None), slice(self.mask.keys(len(x)))
        q = _heads(self.query, self.num_heads, x, reads.get("q_in"), queries)
        q = by_head(tap, "q_pre", q)
        k = _heads(self.key, self.num_kv_heads, x, reads.get("k_in"), keys)
        k = by_head(tap, "k_pre", k, heads=kv_axis)
        q = _normed(self.query_norm, q, tap.scope("q_norm"), "head")
        k = _normed(self.key_norm, k, tap.scope("k_norm"), kv_axis)
        q = by_head(tap, "q", positions.rotate(q, start))
        k = by_head(tap, "k", positions.rotate(k, 0), heads=kv_axis)
        v = _heads(self.value, self.num_kv_heads, x, reads.get("v_in"), keys)
        v = by_head(tap, "v", v, heads=kv_axis)
        if kv_axis != "head":
            times = self.num_heads // self.num_kv_heads
            k, v = (jnp.repeat(shared, times, 1) for shared in (k, v))
        seen: Any = self.mask.seen(len(x), start)
        if real is not None:
            seen = seen & real[keys]
        seen = _named(seen, start, tap)
        z = self.kind(q, k, v, seen, tap=tap)
        z = by_head(tap, "z", z)
        if isinstance(self.kind, AbstractMixingAttention):
            z = by_head(tap, "z_post", self.kind.mix(z))
        return tap("out", self._project(z, tap), "seq d_model")

    @property
    def kv_axis(self) -> str:
        """The head axis of keys and values; `kv_head` if several heads share them."""
        return "head" if self.num_kv_heads == self.num_heads else "kv_head"

    def _project(
        self, z: Float[Array, "seq head d_head"], tap: Tap
    ) -> Float[Array, "seq d_model"]:
        out = per_token(self.output, z.reshape(len(z), -1))
        mixing = isinstance(self.kind, AbstractMixingAttention)
        if mixing or not tap.wants("result"):
            return out
        weight = self.output.weight.reshape(-1, self.num_heads, z.shape[-1])
        result = jnp.einsum("mhd,shd->hsm", weight, z)
        edited = tap("result", result, "head seq d_model")
        # Add the difference, so an edit that changes nothing has exactly no effect.
        return out if edited is result else out + (edited - result).sum(0)


def _named(seen: Any, start: int, tap: Tap) -> Any:
    """Names which keys each query sees, if some do not see all before them."""
    if (
        isinstance(seen, np.ndarray)
        and seen[np.tri(*seen.shape, k=start, dtype=bool)].all()
    ):
        return seen
    if not tap.wants("seen"):
        return seen
    given = jnp.asarray(seen)
    new = tap("seen", given, "seq kv_seq")
    return seen if new is given else new


def _normed(
    norm: RMSNorm | None, x: Float[Array, "seq part d_head"], tap: Tap, heads: str
) -> Float[Array, "seq part d_head"]:
    """Queries or keys of each head, normalised."""
    if norm is None:
        return x
    by_head = norm(x.swapaxes(0, 1), axes=f"{heads} seq", tap=tap)
    return by_head.swapaxes(0, 1)


def _heads(
    layer: eqx.nn.Linear | eqx.nn.Embedding,
    heads: int,
    x: Float[Array, "seq d_model"] | Int[Array, " seq"],
    read: tuple[Array, Array] | None,
    tokens: slice,
) -> Float[Array, "part head d_head"]:
    """The queries, keys or values of each head for some of the tokens."""
    y = per_token(layer, x[tokens])
    y = y.reshape(len(y), heads, -1)
    if read is None:
        return y
    # Add the difference, so an edit that changes nothing has exactly no effect.
    weight = layer.weight.reshape(heads, -1, x.shape[-1])
    new, old = (jnp.einsum("hkm,hsm->shk", weight, r[:, tokens]) for r in read)
    return y + (new - old)
