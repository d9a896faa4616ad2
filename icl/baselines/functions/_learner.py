"""What a baseline for functions in context is."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from opto import identity, Tap

from ...checks import check_prompt


class FunctionLearner(eqx.Module):
    """The base of all: it is called like a model, with a prompt's points and values."""

    def __call__(
        self,
        xs: Float[Array, "point dim"],
        ys: Float[Array, " point"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, " point"]:
        """The prediction at each point, 0 at the first one.

        A baseline has no sites: `tap` is not used.
        """
        check_prompt(xs, ys)
        return self.predictions(jnp.asarray(xs), jnp.asarray(ys))

    @abc.abstractmethod
    def predictions(
        self, xs: Float[Array, "point dim"], ys: Float[Array, " point"]
    ) -> Float[Array, " point"]:
        """The prediction at each point from the pairs before it."""


class ContextLearner(FunctionLearner):
    """Learns from the pairs before a point and predicts the point's value.

    Without any pairs, it predicts 0.
    """

    @abc.abstractmethod
    def answer(
        self,
        xs: Float[Array, "point dim"],
        ys: Float[Array, " point"],
        known: Bool[Array, " point"],
        query: Float[Array, " dim"],
    ) -> Float[Array, ""]:
        """The prediction at the query from the known pairs; at least one is known.

        **Arguments:**

        - `xs`, `ys`: The pairs; those that are not known are 0.
        """

    def predictions(self, xs, ys):
        def one(at: Int[Array, ""]) -> Float[Array, ""]:
            known = jnp.arange(len(xs)) < at
            # The first point of all stands in for a context that is empty.
            some = known.at[0].set(True)
            pairs = jnp.where(some[:, None], xs, 0), jnp.where(some, ys, 0)
            return jnp.where(at > 0, self.answer(*pairs, some, xs[at]), 0.0)

        return jax.vmap(one)(jnp.arange(len(xs)))
