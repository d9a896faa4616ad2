"""How labelled points and a query become tokens; the query is the last token."""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ..checks import check_labelled
from ._init import linear
from ._layers import looked_up, per_token


class AbstractPointEmbedding(eqx.Module):
    """Embeds one example. Sites: `tokens.x`, `tokens.y`, `tokens.query`."""

    def __call__(
        self,
        context_x: Float[Array, "pair dim"],
        context_y: Int[Array, " pair"],
        query_x: Float[Array, " dim"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, "seq d_model"]:
        """The embedded tokens, without positions."""
        check_labelled(context_x, context_y, query_x)
        tokens = tap.scope("tokens")
        context_x = tokens("x", context_x, "pair dim")
        context_y = tokens("y", context_y, "pair")
        query_x = tokens("query", query_x, "dim")
        return self.embed(context_x, context_y, query_x)

    @abc.abstractmethod
    def embed(
        self,
        context_x: Float[Array, "pair dim"],
        context_y: Int[Array, " pair"],
        query_x: Float[Array, " dim"],
    ) -> Float[Array, "seq d_model"]:
        """The embedded tokens."""


class SummedEmbedding(AbstractPointEmbedding):
    """A token is a layer of the point plus a layer of its label; see `SummedTokens`."""

    x: eqx.nn.Linear
    y: eqx.nn.Linear | None
    query: eqx.nn.Linear

    def embed(self, context_x, context_y, query_x):
        context = per_token(self.x, context_x)
        if self.y is not None:
            labels = context_y[:, None].astype(context.dtype)
            context = context + per_token(self.y, labels)
        return jnp.concatenate([context, per_token(self.query, query_x[None])])


class InterleavedEmbedding(AbstractPointEmbedding):
    """Point, label, point, label, …, query; see `InterleavedTokens`."""

    x: eqx.nn.Linear
    y: eqx.nn.Embedding

    def embed(self, context_x, context_y, query_x):
        points = per_token(self.x, jnp.concatenate([context_x, query_x[None]]))
        labels = looked_up(self.y.weight, context_y.astype(int))
        pairs = jnp.stack([points[:-1], labels], 1).reshape(-1, points.shape[-1])
        return jnp.concatenate([pairs, points[-1:]])


@dataclasses.dataclass(frozen=True)
class SummedTokens:
    """One token a pair: a layer of the point plus a layer of its label, 0 or 1.

    The query's token is a layer of its own. All have biases.
    """

    def build(
        self, dim: int, d_model: int, *, init_scale: float, key: PRNGKeyArray
    ) -> AbstractPointEmbedding:
        x, query = _layers(dim, d_model, init_scale, key)
        y_key = jax.random.fold_in(key, 2)
        y = linear(1, d_model, bias=True, scale=init_scale, key=y_key)
        return SummedEmbedding(x, y, query)

    def count(self, context: int) -> int:
        """The number of tokens of an example."""
        return context + 1


@dataclasses.dataclass(frozen=True)
class PointTokens:
    """As `SummedTokens`, but labels are not shown: a control."""

    def build(
        self, dim: int, d_model: int, *, init_scale: float, key: PRNGKeyArray
    ) -> AbstractPointEmbedding:
        x, query = _layers(dim, d_model, init_scale, key)
        return SummedEmbedding(x, None, query)

    def count(self, context: int) -> int:
        """The number of tokens of an example."""
        return context + 1


@dataclasses.dataclass(frozen=True)
class InterleavedTokens:
    """Two tokens a pair: a layer of the point, with bias, and a vector of its label.

    The query's token is made by the layer of all points.
    """

    def build(
        self, dim: int, d_model: int, *, init_scale: float, key: PRNGKeyArray
    ) -> AbstractPointEmbedding:
        x, _ = _layers(dim, d_model, init_scale, key)
        table = init_scale * jax.random.normal(jax.random.fold_in(key, 2), (2, d_model))
        return InterleavedEmbedding(x, eqx.nn.Embedding(weight=table))

    def count(self, context: int) -> int:
        """The number of tokens of an example."""
        return 2 * context + 1


PointTokenKind = SummedTokens | PointTokens | InterleavedTokens


def _layers(
    dim: int, d_model: int, init_scale: float, key: PRNGKeyArray
) -> tuple[eqx.nn.Linear, eqx.nn.Linear]:
    x_key, query_key = (jax.random.fold_in(key, k) for k in (0, 1))
    settings = {"bias": True, "scale": init_scale}
    return (
        linear(dim, d_model, key=x_key, **settings),
        linear(dim, d_model, key=query_key, **settings),
    )
