"""The task: linear regression from the pairs of a context; and what it draws."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ...checks import check_not_negative, check_scale, finite, positive
from ...protocols import Input, Interface, Summary, TaskConfig
from ...random import normal, split
from ...summaries import Correlation
from .inputs import CorrelatedInputs, InputDistribution, UniformInputs
from .orderings import AsDrawn, EasyToHard, HardToEasy, Ordering
from .pair_noise import PairNoise, placed


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


@dataclasses.dataclass(frozen=True)
class LinearRegression(TaskConfig):
    r"""Linear regression in context, with Gaussian weights $w$ in each example.

    The defaults are those of von Oswald et al. (2023, section 3). Pairs are drawn, then
    some become noisy (`pair_noise`), then they are put in order, then noisy ones are
    placed.
    """

    summaries: ClassVar[Mapping[str, Summary | None]] = {
        "correlation": Correlation("prediction", "target"),
        "prediction": None,
        "target": None,
    }

    dim: int = 10
    """Number of components of a point."""
    context: int = 10
    """Number of pairs before the queries."""
    input_distribution: InputDistribution = UniformInputs()
    """The distribution of the points, including the queries."""
    noise: float = 0.0
    """Standard deviation of the Gaussian noise on each value of the context. Targets
    have none."""
    queries: int = 1
    """Number of points whose values are to be predicted, each from only the context."""
    input_scale: float = 1.0
    """The factor on all points; values follow. Out of distribution, it is called α."""
    weight_scale: float = 1.0
    """The standard deviation of each component of the weights."""
    pair_noise: PairNoise | None = None
    """Noise on some of the pairs, besides `noise`."""
    ordering: Ordering = AsDrawn()
    """The order of the pairs."""

    def __post_init__(self):
        for name in ("dim", "context", "queries"):
            positive(name, getattr(self, name))
        check_not_negative("noise", self.noise)
        for name in ("input_scale", "weight_scale"):
            check_scale(name, getattr(self, name))
        inputs = self.input_distribution
        if isinstance(inputs, CorrelatedInputs) and len(inputs.covariance) != self.dim:
            wanted = f"dim must be {len(inputs.covariance)}, the size of the covariance"
            raise ValueError(f"{wanted}, got {self.dim}")
        some = self.pair_noise is not None and self.pair_noise.probability > 0
        by_residual = isinstance(self.ordering, EasyToHard | HardToEasy)
        if by_residual and not (some or self.noise):
            name = type(self.ordering).__name__
            problem = f"ordering {name} needs noisy values: all residuals are 0"
            raise ValueError(f"{problem}; use SmallToLargeNorm, or noise or pair_noise")

    @property
    def interface(self) -> Interface:
        """Points `x` and values `y`; one output. The queries' values are never read."""
        points = self.context + self.queries
        x = Input("x", (points, self.dim), "float32")
        y = Input("y", (points,), "float32")
        return Interface((x, y), num_outputs=1, num_queries=self.queries)

    def draw_points(
        self, count: int, *, key: PRNGKeyArray
    ) -> Float[Array, "{count} {self.dim}"]:
        """New points."""
        x = self.input_distribution.sample((count, self.dim), key=key)
        return self.input_scale * x

    def draw_weights(self, *, key: PRNGKeyArray) -> Float[Array, " {self.dim}"]:
        """New weights."""
        return self.weight_scale * normal(key, (self.dim,))

    def sample(
        self, *, key: PRNGKeyArray, seen: int | Int[Array, ""] = 0
    ) -> RegressionExample:
        """Draws one example; the distribution does not depend on `seen`."""
        x_key, w_key, noise_key = split(key, 3)
        pair_key, order_key = (jax.random.fold_in(key, n) for n in (3, 4))
        x = self.draw_points(self.context + self.queries, key=x_key)
        weights = self.draw_weights(key=w_key)
        y = x @ weights
        noisy = order = None
        if self.pair_noise is not None:
            x, y, noisy = self._with_noisy(self.pair_noise, x, y, key=pair_key)
        if self.noise:
            noise = self.noise * normal(noise_key, (self.context,))
            y = y.at[: self.context].add(noise)
        if noisy is not None or self.ordering != AsDrawn():
            order = self._order(x, y, weights, noisy, key=order_key)
            x, y = (a.at[: self.context].set(a[order]) for a in (x, y))
            noisy = None if noisy is None else noisy[order]
        return RegressionExample(x, y, weights, noisy, order, self.queries)

    def _with_noisy(self, noise: PairNoise, x, y, *, key: PRNGKeyArray):
        context = self.context
        which_key, key = split(key)
        noisy = jax.random.bernoulli(which_key, noise.probability, (context,))
        pairs = x[:context], y[:context]
        new_x, new_y = noise.apply(*pairs, self, key=key)
        x = x.at[:context].set(jnp.where(noisy[:, None], new_x, pairs[0]))
        return x, y.at[:context].set(jnp.where(noisy, new_y, pairs[1])), noisy

    def _order(self, x, y, weights, noisy, *, key) -> Int[Array, " {self.context}"]:
        """Which of the drawn pairs comes at each place of the context."""
        x, y = x[: self.context], y[: self.context]
        residuals = jnp.abs(y - x @ weights)
        if not self.noise and noisy is not None:
            # Otherwise the order of clean pairs would depend on rounding.
            residuals = jnp.where(noisy, residuals, 0)
        order = self.ordering.indices(x, residuals, key=key)
        if noisy is None or self.pair_noise is None:
            return order
        return placed(order, noisy, self.pair_noise.placement)

    def inputs(self, example: RegressionExample) -> tuple[Array, Array]:
        """The inputs of a model; it does not read the queries' values."""
        return example.x, example.y

    def forward(
        self, model, example, *, tap: Tap = identity
    ) -> Float[Array, "*answer"]:
        """The model's predictions: a number, or `[query]` for several queries.

        A model whose layers are all trained gives `[layer]` or `[layer query]`.
        """
        return model(*self.inputs(example), tap=tap)

    def metrics(
        self, prediction: Float[Array, "*answer"], example: RegressionExample
    ) -> dict[str, Float[Array, "..."]]:
        """Half the squared error as `loss`, and the two inputs of the correlation.

        The loss is the mean over queries. If there are predictions of several layers,
        it is the mean over them, `layer_loss` has each layer's loss, and `prediction`
        is the last layer's.
        """
        target = example.query_y if self.queries > 1 else example.y[-1]
        errors = 0.5 * (prediction - target) ** 2
        found = {"loss": jnp.mean(errors) if errors.ndim else errors}
        if prediction.ndim > target.ndim:
            found["layer_loss"] = jnp.mean(errors.reshape(len(errors), -1), 1)
            prediction = prediction[-1]
        return found | {"prediction": prediction, "target": target}

    @property
    def corruptions(self) -> dict[str, Callable[[Any], Any]]:
        """`values_negated`: all values and the weights change their sign."""
        return {
            "values_negated": lambda batch: dataclasses.replace(
                batch, y=-batch.y, weights=-batch.weights
            )
        }
