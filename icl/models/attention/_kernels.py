"""Attention whose weights are a kernel of features, divided by their sum.

All kinds here have two forms that give the same: all weights at once, or running sums
over keys (Katharopoulos et al. 2020, "Transformers are RNNs", section 3.3).
"""

import abc
import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple, TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from opto import Tap

from ._kind import AbstractAttention, sees_all
from ._products import faster


if TYPE_CHECKING:  # The way Equinox wants it.
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


# All weights at once are as fast on a CPU as a running sum with less arithmetic by this
# factor, with gradients; measured in benchmarks/attention.py.
_AT_ONCE = 2.0
# The running sum takes this many keys at a time.
_CHUNK = 64
# What stands for the logarithm of zero. Infinities would give NaN.
_LEAST = -1e30


class Features(NamedTuple):
    """The features of queries or keys.

    The true features of a token are `values` times the exponential of `log`. The factor
    is kept apart because it may be too large or too small for a float. Gradients do not
    pass through `log`. That of a query is not read: its factor does not change weights.
    """

    values: Float[Array, "seq head feature"]
    log: Float[Array, "seq head"] | None = None


@dataclasses.dataclass(frozen=True)
class Kernel:
    """How the features of a query and of a key give a weight.

    It is their product to some power, divided by epsilon plus the sum over all keys.
    """

    power: Literal[1, 2] = 1
    epsilon: float = 0.0

    def of(self, products: Float[Array, "..."]) -> Float[Array, "..."]:
        """The kernel's value for the products of features."""
        return products**2 if self.power == 2 else products

    def lifted(self, x: Float[Array, "seq head feature"]) -> Float[Array, "seq head f"]:
        """Features whose plain products are the values of the kernel."""
        if self.power == 1:
            return x
        first, second = np.triu_indices(x.shape[-1])
        # A pair of different entries stands for two entries of the outer product.
        factor = np.where(first == second, 1.0, np.sqrt(2.0)).astype(x.dtype)
        return x[..., first] * x[..., second] * factor

    def width(self, features: int) -> int:
        """The number of lifted features."""
        return features if self.power == 1 else features * (features + 1) // 2

    def over_sum(
        self, x: Float[Array, "..."], total: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """`x` divided by the sum of weights; `total` broadcasts to `x`."""
        total = total + self.epsilon if self.epsilon else total
        # The gradient of a quotient has the total's square, which may be too large or
        # too small for a float. So make it one first.
        inverse = jax.lax.stop_gradient(1 / total)
        return (x * inverse) * (1 / (total * inverse))


class AbstractKernelAttention(AbstractAttention):
    """Weights are a kernel of features of queries and keys, divided by their sum.

    - `kernel`: How the features give weights.
    """

    kernel: AbstractClassVar[Kernel]

    before: ClassVar = "kernel"
    bilinear: ClassVar = False

    @abc.abstractmethod
    def queries(self, q: Float[Array, "seq head d_head"]) -> Features:
        """The features of queries."""

    @abc.abstractmethod
    def keys(self, k: Float[Array, "kv_seq head d_head"]) -> Features:
        """The features of keys."""

    def __call__(self, q, k, v, seen, *, tap):
        queries, keys = self.queries(q), self.keys(k)
        short = _is_short(self.kernel, keys, v, seen)
        at_once = self.asked(tap) or short or not AsScan.fits(seen)
        form = AsPattern(self, tap) if at_once else AsScan(self)
        return form(queries, keys, v, seen)


def _is_short(rule: Kernel, k: Features, v: Array, seen: Any) -> bool:
    """Whether all weights at once are faster than a running sum."""
    (queries, keys), value = seen.shape, v.shape[-1]
    each = k.values.shape[-1] + value
    at_once = queries * keys * each
    sums = (queries + keys) * rule.width(k.values.shape[-1]) * value
    if not sees_all(seen):
        sums += queries * _CHUNK * each
    return at_once <= _AT_ONCE * sums


@dataclasses.dataclass(frozen=True)
class AsPattern:
    """All weights at once: takes quadratic time, and the weights have sites."""

    kind: AbstractKernelAttention
    tap: Tap

    def __call__(
        self,
        q: Features,
        k: Features,
        v: Float[Array, "kv_seq head d_head"],
        seen: Bool[np.ndarray | Array, "seq kv_seq"],
    ) -> Float[Array, "seq head d_head"]:
        form, rule = faster(q.values, k.values), self.kind.kernel
        kernel = rule.of(form.scores(q.values, k.values))
        some = not sees_all(seen)
        if not isinstance(seen, np.ndarray):
            # A query of padding may see no key; its sum must not be zero.
            seen = seen | ~seen.any(-1, keepdims=True)
        visible = jnp.expand_dims(seen, form.head)
        if k.log is not None:
            logs = jnp.where(visible, _as_keys(k.log, form.head), _LEAST)
            highest = jnp.max(logs, form.key, keepdims=True)
            kernel = kernel * jnp.exp(logs - highest)
        if some:
            kernel = jnp.where(visible, kernel, 0)
        kernel = self.kind.name_before(self.tap, kernel, form.head)
        pattern = rule.over_sum(kernel, jnp.sum(kernel, form.key, keepdims=True))
        pattern = self.kind.name_pattern(self.tap, pattern, form.head)
        return form.mixed(pattern, v)


def _as_keys(log: Float[Array, "kv_seq head"], head: int) -> Float[Array, "a b c"]:
    """Logarithms as weights are: `[head, 1, kv_seq]`, or `[1, kv_seq, head]`."""
    return log.T[:, None] if head == 0 else log[None]


@dataclasses.dataclass(frozen=True)
class AsScan:
    """A running sum over keys: takes linear time, if queries see the first keys.

    Either all queries see the same keys, or each sees one more than the one before it.
    """

    kind: AbstractKernelAttention

    @staticmethod
    def fits(seen: Bool[np.ndarray | Array, "seq kv_seq"]) -> bool:
        """Whether the queries see keys in this way."""
        if not isinstance(seen, np.ndarray):
            return False
        counts = seen.sum(1)
        first = np.arange(seen.shape[1]) < counts[:, None]
        steps = np.diff(counts)
        even = (steps == 0).all() or (steps == 1).all()
        return bool((seen == first).all() and even)

    def __call__(
        self,
        q: Features,
        k: Features,
        v: Float[Array, "kv_seq head d_head"],
        seen: Any,
    ) -> Float[Array, "seq head d_head"]:
        # An extra value of 1 sums up the weights.
        v = jnp.concatenate([v, jnp.ones_like(v[..., :1])], -1)
        first, last = int(seen[0].sum()), int(seen[-1].sum())
        rule = self.kind.kernel
        if first == last:
            total = _Total.zero(rule, k, v).plus(
                rule, _part(k, slice(first)), v[:first]
            )
            sums = total.read(rule, q.values)
        else:
            sums = self._chunks(q.values, k, v, first, last)
        return rule.over_sum(sums[..., :-1], sums[..., -1:])

    def _chunks(
        self,
        q: Float[Array, "seq head feature"],
        k: Features,
        v: Float[Array, "kv_seq head value"],
        first: int,
        last: int,
    ) -> Float[Array, "seq head value"]:
        """The sums for each query; query `i` sees `first + i` keys."""
        rule, size = self.kind.kernel, min(_CHUNK, len(q))
        known, new = slice(first - 1), slice(first - 1, last)
        start = _Total.zero(rule, k, v).plus(rule, _part(k, known), v[known])
        chunks = jax.tree.map(lambda x: _in_chunks(x, size), (q, _part(k, new), v[new]))

        def step(total: _Total, chunk):
            queries, keys, values = chunk
            return total.plus(rule, keys, values), _within(
                rule, total, queries, keys, values
            )

        _, sums = jax.lax.scan(step, start, chunks)
        return sums.reshape(-1, *sums.shape[2:])[: len(q)]


class _Total(NamedTuple):
    """Sums over some keys: of lifted features times values, and their common factor."""

    sums: Float[Array, "head f value"]
    log: Float[Array, " head"] | None

    @staticmethod
    def zero(rule: Kernel, k: Features, v: Array) -> "_Total":
        """The sums over no keys."""
        heads, width = v.shape[1:]
        size = rule.width(k.values.shape[-1])
        log = None if k.log is None else jnp.full(heads, _LEAST, k.log.dtype)
        return _Total(jnp.zeros((heads, size, width), v.dtype), log)

    def plus(self, rule: Kernel, k: Features, v: Array) -> "_Total":
        """The sums over these keys, too."""
        sums, lifted, log = self.sums, rule.lifted(k.values), self.log
        if log is not None and k.log is not None:
            highest = jnp.maximum(log, jnp.max(k.log, 0, initial=_LEAST))
            sums = sums * jnp.exp(log - highest)[:, None, None]
            lifted = lifted * jnp.exp(k.log - highest)[..., None]
            log = highest
        return _Total(sums + jnp.einsum("khf,khe->hfe", lifted, v), log)

    def read(
        self, rule: Kernel, q: Float[Array, "seq head feature"]
    ) -> Float[Array, "seq head value"]:
        """What queries gather from the keys, up to the common factor."""
        return jnp.einsum("qhf,hfe->qhe", rule.lifted(q), self.sums)


def _within(rule: Kernel, total: _Total, q: Array, k: Features, v: Array) -> Array:
    """What queries gather from the keys before their chunk, and in it up to theirs."""
    kernel = rule.of(jnp.einsum("qhd,khd->hqk", q, k.values))
    before = total.read(rule, q)
    if total.log is not None and k.log is not None:
        highest = jnp.maximum(total.log, jax.lax.cummax(k.log, 0))
        # At most 0 for keys that are seen; the others must not overflow.
        logs = jnp.minimum(k.log.T[:, None] - highest.T[..., None], 0)
        kernel = kernel * jnp.exp(logs)
        before = before * jnp.exp(total.log - highest)[..., None]
    kernel = jnp.where(np.tri(len(q), dtype=bool), kernel, 0)
    return before + jnp.einsum("hqk,khe->qhe", kernel, v)


def _part(k: Features, keys: slice) -> Features:
    return jax.tree.map(lambda x: x[keys], k)


def _in_chunks(x: Float[Array, "seq ..."], size: int) -> Float[Array, "chunk size ..."]:
    """The rows in chunks; the last row is repeated, and nobody reads these rows."""
    missing = -len(x) % size
    x = jnp.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1), mode="edge")
    return x.reshape(-1, size, *x.shape[1:])
