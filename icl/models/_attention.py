"""Multi-head softmax attention, every step of it a site."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

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
        x: Float[Array, "seq d_model"] | Int[Array, " seq"],
        positions: AbstractPositions,
        *,
        reads: Reads | None = None,
        start: int = 0,
        tap: Tap = identity,
    ) -> Float[Array, "query_seq d_model"]:
        """The attention's output for the tokens from position `start` on.

        `x` are ids if queries, keys and values are tables. `reads` has, for `q_in`,
        `k_in` and `v_in`, what each head reads and what it would read unedited, if
        those differ.
        """
        reads = reads or {}
        q = self._heads(self.query, x[start:], _from(start, reads.get("q_in")))
        q = _by_head(tap, "q_pre", q)
        k = _by_head(tap, "k_pre", self._heads(self.key, x, reads.get("k_in")))
        q = _by_head(tap, "q", positions.rotate(q, start))
        k = _by_head(tap, "k", positions.rotate(k, 0))
        v = _by_head(tap, "v", self._heads(self.value, x, reads.get("v_in")))

        form: _Form = _Sums() if len(q) * len(k) <= _ELEMENTWISE_PAIRS else _Products()
        scores = self.scale * form.scores(q, k)
        if self.causal:
            mask = jnp.expand_dims(_causal(len(x), start), form.head)
            scores = jnp.where(mask, scores, MASKED)
        scores = _by_head(tap, "scores", scores, form.head)
        pattern = jax.nn.softmax(scores, form.key)
        pattern = _by_head(tap, "pattern", pattern, form.head)
        z = _by_head(tap, "z", form.mixed(pattern, v))
        return tap("out", self._project(z, tap), "seq d_model")

    def _heads(
        self,
        layer: eqx.nn.Linear | eqx.nn.Embedding,
        x: Float[Array, "seq d_model"] | Int[Array, " seq"],
        read: tuple[Array, Array] | None,
    ) -> Float[Array, "seq head d_head"]:
        y = per_token(layer, x).reshape(len(x), self.num_heads, -1)
        if read is None:
            return y
        # The difference, so that an edit which changes nothing is exactly nothing.
        weight = layer.weight.reshape(self.num_heads, -1, x.shape[-1])
        new, old = (jnp.einsum("hkm,hsm->shk", weight, r) for r in read)
        return y + (new - old)

    def _project(
        self, z: Float[Array, "seq head d_head"], tap: Tap
    ) -> Float[Array, "seq d_model"]:
        out = per_token(self.output, z.reshape(len(z), -1))
        if not tap.wants("result"):
            return out
        weight = self.output.weight.reshape(-1, self.num_heads, z.shape[-1])
        result = jnp.einsum("mhd,shd->hsm", weight, z)
        edited = tap("result", result, "head seq d_model")
        # The difference, so that an edit which changes nothing is exactly nothing.
        return out if edited is result else out + (edited - result).sum(0)


def _from(start: int, read: tuple[Array, Array] | None) -> tuple[Array, Array] | None:
    return None if read is None else (read[0][:, start:], read[1][:, start:])


def _causal(seq: int, start: int) -> Bool[np.ndarray, "query_seq seq"]:
    return np.arange(start, seq)[:, None] >= np.arange(seq)


def _by_head(tap: Tap, name: str, value: Array, head: int = 1) -> Array:
    """Names a value as `[head, …]`, whose axis of heads is another, for less."""
    if not tap.wants(name):
        return value
    axes = "head seq d_head" if head == 1 else "head seq kv_seq"
    seen = jnp.moveaxis(value, head, 0)
    new = tap(name, seen, axes)
    return value if new is seen else jnp.moveaxis(new, 0, head)


class _Sums:
    """Sums of products, of scores `[seq, kv_seq, head]`: without a transposition."""

    head, key = 2, 1

    def scores(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "seq kv_seq head"]:
        return jnp.sum(q[:, None] * k, -1)

    def mixed(
        self,
        pattern: Float[Array, "seq kv_seq head"],
        v: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "seq head d_head"]:
        return jnp.sum(pattern[..., None] * v, 1)


class _Products:
    """Matrix products for each head, of scores `[head, seq, kv_seq]`."""

    head, key = 0, 2

    def scores(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "head seq kv_seq"]:
        return jnp.einsum("qhd,khd->hqk", q, k)

    def mixed(
        self,
        pattern: Float[Array, "head seq kv_seq"],
        v: Float[Array, "kv_seq head d_head"],
    ) -> Float[Array, "seq head d_head"]:
        return jnp.einsum("hqk,khd->qhd", pattern, v)


_Form = _Sums | _Products
