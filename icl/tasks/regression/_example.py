"""What a regression task draws: pairs, queries, and what was done to the pairs."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from ...checks import finite


class RegressionExample(eqx.Module):
    """One example, or a batch of them with leading axes; the queries come last.

    **Attributes:**

    - `x`: The points.
    - `y`: Their values; the queries' values are the targets, which no model reads.
    - `weights`: The weights $w$ behind the values.
    - `noisy`: Which pairs of the context a `PairNoise` changed, in the order in which
        they are here; `None` for a task without one.
    - `order`: Which of the drawn pairs is at each place; `None` if pairs are as drawn.
    - `num_queries`: How many of the last points are queries.
    """

    x: Float[Array, "*batch point dim"]
    y: Float[Array, "*batch point"]
    weights: Float[Array, "*batch dim"]
    noisy: Bool[Array, "*batch pair"] | None = None
    order: Int[Array, "*batch pair"] | None = None
    num_queries: int = eqx.field(static=True, default=1)

    @property
    def context_x(self) -> Float[Array, "*batch pair dim"]:
        """The points of the context."""
        return self.x[..., : -self.num_queries, :]

    @property
    def context_y(self) -> Float[Array, "*batch pair"]:
        """The values of the context."""
        return self.y[..., : -self.num_queries]

    @property
    def query_x(self) -> Float[Array, "*batch query dim"]:
        """The queries' points; the axis is there for one query, too."""
        return self.x[..., -self.num_queries :, :]

    @property
    def query_y(self) -> Float[Array, "*batch query"]:
        """The queries' values, which are to be predicted."""
        return self.y[..., -self.num_queries :]

    def check_batch(self) -> None:
        """Raises `ValueError` if some numbers are not finite."""
        for name in ("x", "y", "weights"):
            finite(name, getattr(self, name))
