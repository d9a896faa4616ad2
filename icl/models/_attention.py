"""Multi-head softmax attention, every step of it a site."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from opto import identity, Tap
from opto.circuits import HeadWeights

from ._init import linear, per_token
from ._positions import AbstractPositions


# Forbidden scores: finite, as infinities turn into NaN gradients, and large enough that
# the softmax gives exactly zero.
MASKED = -1e20

# Up to this many (query, key) pairs XLA's CPU backend is faster at sums of products
# than at small batched matrix products; measured in benchmarks/choices.py.
_ELEMENTWISE_PAIRS = 512


# By site: what each head reads, and what it would read unedited; both normed.
Reads = dict[
    str, tuple[Float[Array, "head seq d_model"], Float[Array, "head seq d_model"]]
]


class Attention(eqx.Module):
    """Softmax attention of one sequence onto itself.

    Weights are (out, in), applied as `W @ x` token by token: under `vmap` their
    gradients cost half of those of `x @ W`.
    """

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    output: eqx.nn.Linear
    num_heads: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    causal: bool = eqx.field(static=True)

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        causal: bool,
        qkv_bias: bool,
        scale: float | None,
        init_scale: float,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `d_model`: Width of the residual stream, divisible by `num_heads`.
        - `num_heads`: Heads of dimension `d_model / num_heads`.
        - `causal`: Whether a token sees only itself and what came before.
        - `qkv_bias`: Whether queries, keys and values have a bias.
        - `scale`: What the scores are multiplied by; `None` is `d_head ** -0.5`.
        - `init_scale`: Multiplies the initial weights.
        """
        if num_heads < 1 or d_model % num_heads:
            wanted = f"a positive divisor of d_model={d_model}"
            raise ValueError(f"num_heads must be {wanted}, got {num_heads}")
        q, k, v, o = jax.random.split(key, 4)
        settings = {"scale": init_scale}
        self.query = linear(d_model, d_model, bias=qkv_bias, key=q, **settings)
        self.key = linear(d_model, d_model, bias=qkv_bias, key=k, **settings)
        self.value = linear(d_model, d_model, bias=qkv_bias, key=v, **settings)
        self.output = linear(d_model, d_model, bias=False, key=o, **settings)
        self.num_heads = num_heads
        self.scale = (d_model // num_heads) ** -0.5 if scale is None else scale
        self.causal = causal

    @property
    def head_weights(self) -> HeadWeights:
        """Each head's own part of the matrices, for `opto.circuits`; no biases."""
        heads, d_model = self.num_heads, self.query.in_features
        q, k, v = (
            layer.weight.reshape(heads, -1, d_model)
            for layer in (self.query, self.key, self.value)
        )
        output = self.output.weight.reshape(d_model, heads, -1).swapaxes(0, 1)
        return HeadWeights(q, k, v, output)

    def __call__(
        self,
        x: Float[Array, "seq d_model"],
        positions: AbstractPositions,
        *,
        reads: Reads | None = None,
        start: int = 0,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        """The attention's output for the tokens from position `start` on.

        `reads` has, for `q_in`, `k_in` and `v_in`, what each head reads and what it
        would read unedited, if those differ.
        """
        reads = reads or {}
        q = self._heads(self.query, x[start:], _from(start, reads.get("q_in")))
        q = tap("q_pre", q, "head seq d_head")
        k = self._heads(self.key, x, reads.get("k_in"))
        k = tap("k_pre", k, "head seq d_head")
        q = tap("q", positions.rotate(q, start), "head seq d_head")
        k = tap("k", positions.rotate(k, 0), "head seq d_head")
        v = self._heads(self.value, x, reads.get("v_in"))
        v = tap("v", v, "head seq d_head")

        scores = self.scale * _scores(q, k)
        if self.causal:
            scores = jnp.where(_causal(len(x), start), scores, MASKED)
        scores = tap("scores", scores, "head seq kv_seq")
        pattern = tap("pattern", jax.nn.softmax(scores), "head seq kv_seq")
        z = tap("z", _mix(pattern, v), "head seq d_head")
        return tap("out", self._project(z, tap), "seq d_model")

    def _heads(
        self,
        layer: eqx.nn.Linear,
        x: Float[Array, "seq d_model"],
        read: tuple[Array, Array] | None,
    ) -> Float[Array, "head seq d_head"]:
        y = per_token(layer, x)
        y = y.reshape(len(x), self.num_heads, -1).swapaxes(0, 1)
        if read is None:
            return y
        # The difference, so that an edit which changes nothing is exactly nothing.
        weight = layer.weight.reshape(self.num_heads, -1, x.shape[-1])
        new, old = (jnp.einsum("hkm,hsm->hsk", weight, r) for r in read)
        return y + (new - old)

    def _project(
        self, z: Float[Array, "head seq d_head"], tap: Tap
    ) -> Float[Array, "seq d_model"]:
        out = per_token(self.output, z.swapaxes(0, 1).reshape(z.shape[1], -1))
        if not tap.wants("result"):
            return out
        weight = self.output.weight.reshape(-1, self.num_heads, z.shape[-1])
        result = jnp.einsum("mhd,hsd->hsm", weight, z)
        edited = tap("result", result, "head seq d_model")
        # The difference, so that an edit which changes nothing is exactly nothing.
        return out if edited is result else out + (edited - result).sum(0)


def _from(start: int, read: tuple[Array, Array] | None) -> tuple[Array, Array] | None:
    return None if read is None else (read[0][:, start:], read[1][:, start:])


def _causal(seq: int, start: int) -> Bool[np.ndarray, "query_seq seq"]:
    return np.arange(start, seq)[:, None] >= np.arange(seq)


def _scores(
    q: Float[Array, "head seq d_head"], k: Float[Array, "head kv_seq d_head"]
) -> Float[Array, "head seq kv_seq"]:
    if q.shape[1] * k.shape[1] > _ELEMENTWISE_PAIRS:
        return jnp.einsum("hqd,hkd->hqk", q, k)
    return jnp.sum(q[:, :, None] * k[:, None], -1)


def _mix(
    pattern: Float[Array, "head seq kv_seq"], v: Float[Array, "head kv_seq d_head"]
) -> Float[Array, "head seq d_head"]:
    if pattern.shape[1] * pattern.shape[2] > _ELEMENTWISE_PAIRS:
        return jnp.einsum("hqk,hkd->hqd", pattern, v)
    return jnp.sum(pattern[..., None] * v[:, None], 2)
