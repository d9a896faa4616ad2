r"""Linear regression in context (von Oswald et al., 2023; Garg et al., 2022).

An example is a context of pairs $(x_i, y_i)$ with $y_i = w \cdot x_i$ and a query $x$,
whose $y$ is to be predicted. Each example has new weights $w$, so only the context
tells them.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ..checks import finite, positive
from ..protocols import Input, Interface, Summary, TaskConfig
from ..summaries import Correlation


def _check_scale(name: str, value: Any) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")


class RegressionExample(eqx.Module):
    """One example, or a batch of them with leading axes; the query is the last point.

    **Attributes:**

    - `x`: The points.
    - `y`: Their values; the query's value is the target, which no model reads.
    - `weights`: The weights $w$ behind the values.
    """

    x: Float[Array, "*batch point dim"]
    y: Float[Array, "*batch point"]
    weights: Float[Array, "*batch dim"]

    def check_batch(self) -> None:
        """Raises `ValueError` if some numbers are not finite."""
        for name in ("x", "y", "weights"):
            finite(name, getattr(self, name))


@dataclasses.dataclass(frozen=True)
class UniformInputs:
    """Each component of a point is independent and uniform in ± `bound`."""

    bound: float = 0.5
    """Above 0. The published losses use ±1/2."""

    def __post_init__(self):
        _check_scale("bound", self.bound)

    @property
    def variance(self) -> float:
        """The variance of a component."""
        return self.bound**2 / 3

    @property
    def fourth_moment(self) -> float:
        """The mean fourth power of a component."""
        return self.bound**4 / 5

    def sample(
        self, shape: tuple[int, ...], *, key: PRNGKeyArray
    ) -> Float[Array, "..."]:
        return jax.random.uniform(key, shape, minval=-self.bound, maxval=self.bound)


@dataclasses.dataclass(frozen=True)
class GaussianInputs:
    """Each component of a point is independent and normal around 0."""

    std: float = 1.0
    """Standard deviation, above 0."""

    def __post_init__(self):
        _check_scale("std", self.std)

    @property
    def variance(self) -> float:
        """The variance of a component."""
        return self.std**2

    @property
    def fourth_moment(self) -> float:
        """The mean fourth power of a component."""
        return 3 * self.std**4

    def sample(
        self, shape: tuple[int, ...], *, key: PRNGKeyArray
    ) -> Float[Array, "..."]:
        return self.std * jax.random.normal(key, shape)


InputDistribution = UniformInputs | GaussianInputs


@dataclasses.dataclass(frozen=True)
class LinearRegression(TaskConfig):
    r"""Linear regression in context, with weights $w \sim N(0, I)$ in each example.

    The defaults are those of von Oswald et al. (2023, section 3).
    """

    summaries: ClassVar[Mapping[str, Summary | None]] = {
        "correlation": Correlation("prediction", "target"),
        "prediction": None,
        "target": None,
    }

    dim: int = 10
    """Number of components of a point."""
    context: int = 10
    """Number of pairs before the query."""
    input_distribution: InputDistribution = UniformInputs()
    """The distribution of the points, including the query."""
    noise: float = 0.0
    """Standard deviation of the Gaussian noise on each value of the context."""

    def __post_init__(self):
        positive("dim", self.dim)
        positive("context", self.context)
        if not 0 <= self.noise < math.inf:
            raise ValueError(f"noise must be at least 0 and finite, got {self.noise}")

    @property
    def interface(self) -> Interface:
        """Points `x` and values `y`; one output. The last value is never read."""
        points = self.context + 1
        x = Input("x", (points, self.dim), "float32")
        return Interface((x, Input("y", (points,), "float32")), num_outputs=1)

    def sample(
        self, *, key: PRNGKeyArray, seen: int | Int[Array, ""] = 0
    ) -> RegressionExample:
        """Draws one example; the distribution does not depend on `seen`."""
        x_key, w_key, noise_key = jax.random.split(key, 3)
        x = self.input_distribution.sample((self.context + 1, self.dim), key=x_key)
        weights = jax.random.normal(w_key, (self.dim,))
        y = x @ weights
        if self.noise:
            noise = self.noise * jax.random.normal(noise_key, (self.context,))
            y = y.at[:-1].add(noise)
        return RegressionExample(x, y, weights)

    def inputs(
        self, example: RegressionExample
    ) -> tuple[Float[Array, "*batch point dim"], Float[Array, "*batch point"]]:
        """The inputs of a model; it does not read the last value."""
        return example.x, example.y

    def forward(
        self,
        model: Callable[..., Float[Array, ""]],
        example: RegressionExample,
        *,
        tap: Tap = identity,
    ) -> Float[Array, ""]:
        """The model's prediction of the query's value."""
        return model(*self.inputs(example), tap=tap)

    def metrics(
        self, prediction: Float[Array, ""], example: RegressionExample
    ) -> dict[str, Float[Array, ""]]:
        """Half the squared error as `loss`, and the two inputs of the correlation."""
        target = example.y[-1]
        loss = 0.5 * (prediction - target) ** 2
        return {"loss": loss, "prediction": prediction, "target": target}
