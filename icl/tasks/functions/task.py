"""The task: predict the value of each point from the pairs before it."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ...checks import finite, positive
from ...protocols import Input, Interface, MOST_SEEN, Summary, TaskConfig
from ...summaries import BootstrapInterval, CountedMean
from ._function import Active, FunctionClass, Parameters, Size
from ._shift import InputShift, NORMAL
from .classes.linear import LinearFunction
from .curriculum import Curriculum


class FunctionExample(eqx.Module):
    """One prompt, or a batch of them with leading axes.

    **Attributes:**

    - `xs`: The points.
    - `ys`: Their values, as the model sees them. A model predicts the value of a point
        from this point and all pairs before it.
    - `counts`: Which predictions are scored: those within the curriculum's length, or,
        if the query is shifted, only that of the query.
    - `mean_square`: The mean square of the function's values, which divides errors.
    """

    xs: Float[Array, "*batch point dim"]
    ys: Float[Array, "*batch point"]
    counts: Bool[Array, "*batch point"]
    mean_square: Float[Array, "*batch"]

    def check_batch(self) -> None:
        """Raises `ValueError` if some numbers are not finite."""
        for name in ("xs", "ys", "mean_square"):
            finite(name, getattr(self, name))


class Prompt(eqx.Module):
    """A prompt before one position is its query, or a batch of prompts.

    Points of the context, points as queries, and the values of both. They differ only
    under a shift of the query.
    """

    context_x: Float[Array, "*batch point dim"]
    context_y: Float[Array, "*batch point"]
    query_x: Float[Array, "*batch point dim"]
    query_y: Float[Array, "*batch point"]


@dataclasses.dataclass(frozen=True)
class InContextFunction(TaskConfig):
    """A function in context: prompts of points and values, new ones in each prompt.

    The defaults are those of Garg et al. (2022), without their curriculum.
    """

    summaries: ClassVar[Mapping[str, Summary | None]] = {
        "error": CountedMean("error"),
        "error_interval": BootstrapInterval("error"),
    }

    function: FunctionClass = LinearFunction()
    """The class of functions."""
    dim: int = 20
    """Number of components of a point."""
    points: int = 41
    """Number of pairs; the last one has `points - 1` pairs before it."""
    shift: InputShift | None = None
    """A shift of the points, for evaluation sets; `None` is standard normal points."""
    curriculum: Curriculum | None = None
    """How prompts grow in training; `None` uses whole prompts from the start."""

    def __post_init__(self):
        positive("dim", self.dim)
        positive("points", self.points)
        self.function.check(self.dim)
        kind = type(self.shift).__name__
        if self.shift is not None:
            self.shift.check(self.points, self.dim)
            queries = self._queries
            if queries is not None and (self.points < 2 or not queries):
                got = f"points={self.points}, dim={self.dim}"
                raise ValueError(f"{kind} needs a point before the query, got {got}")
        if self.curriculum is not None:
            self.curriculum.check(self.points, self.dim)
            if self.shift is not None:
                raise ValueError(f"{kind} is for evaluation: set curriculum to None")

    @property
    def interface(self) -> Interface:
        """Points `xs` and values `ys`; one output for each point."""
        xs = Input("xs", (self.points, self.dim), "float32")
        return Interface((xs, Input("ys", (self.points,), "float32")), num_outputs=1)

    def sample(
        self, *, key: PRNGKeyArray, seen: int | Int[Array, ""] = 0
    ) -> FunctionExample:
        """Draws one prompt; with a curriculum, its size depends on `seen`.

        Under a shift of the query, a random position is the query, and only its
        prediction counts. The points before and after it are those of the context.
        """
        key, place_key = jax.random.split(key)
        context, query, function, length, active = self._draw(key, seen)
        places = jnp.arange(self.points)
        xs, counts = context, places < length
        allowed = None if self.shift is None else self._queries
        if allowed is not None:
            first, stop = allowed.start, allowed.stop
            counts = places == jax.random.randint(place_key, (), first, stop)
            xs = jnp.where(counts[:, None], query, context)
        used = places < length
        ys = jnp.where(used, self.function.values(function, xs), 0.0)
        size = jnp.asarray(self._mean_square(active), xs.dtype)
        return FunctionExample(xs, ys, counts, size)

    def prompt(self, *, key: PRNGKeyArray) -> Prompt:
        """Draws a prompt without choosing its query; for errors by context length.

        A curriculum is at its end: all points and components are in use.
        """
        key, _ = jax.random.split(key)
        context, query, function, *_ = self._draw(key, MOST_SEEN)
        values = lambda xs: self.function.values(function, xs)
        return Prompt(context, values(context), query, values(query))

    def stage(self, seen: ArrayLike) -> dict[str, np.ndarray]:
        """How many points and components are in use after `seen` sequences."""
        seen = np.asarray(seen)
        if self.curriculum is None:
            full = {"n_points": self.points, "n_dims": self.dim}
            return {name: np.full(seen.shape, size) for name, size in full.items()}
        ramps = {"n_points": self.curriculum.points, "n_dims": self.curriculum.dims}
        return {name: np.asarray(ramp.at(seen)) for name, ramp in ramps.items()}

    @property
    def mean_square(self) -> float:
        """The mean square of the values at queries, by which errors are divided.

        It is that of all components; during a curriculum, examples have their own.
        """
        return float(self._mean_square(self.dim))

    def _mean_square(self, active: Active) -> Size:
        inputs = NORMAL if self.shift is None else self.shift.moments(self.dim)
        return self.function.mean_square(self.dim, inputs, active=active)

    @property
    def _queries(self) -> range | None:
        return self.shift and self.shift.queries(self.points, self.dim)

    def _draw(
        self, key: PRNGKeyArray, seen: int | Int[Array, ""]
    ) -> tuple[Array, Array, Parameters, Active, Active]:
        """Points of the context and as queries, a function, and how many are in use.

        The numbers in use are those of points and of components.
        """
        x_key, function_key, shift_key = jax.random.split(key, 3)
        length, active = self.points, self.dim
        xs = jax.random.normal(x_key, (self.points, self.dim))
        if self.curriculum is not None:
            length = self.curriculum.points.at(seen)
            active = self.curriculum.dims.at(seen)
            used = jnp.arange(self.points)[:, None] < length
            xs = jnp.where(used & (jnp.arange(self.dim) < active), xs, 0.0)
        function = self.function.draw(
            self.points, self.dim, active=active, key=function_key
        )
        if self.shift is None:
            return xs, xs, function, length, active
        choices = self.shift.choices(self.points, self.dim, key=shift_key)
        return *self.shift.apply(xs, choices), function, length, active

    def inputs(self, example: FunctionExample) -> tuple[Array, Array]:
        """The inputs of a model: points and values."""
        return example.xs, example.ys

    def forward(self, model, example, *, tap: Tap = identity) -> Float[Array, " point"]:
        """The model's prediction at each point, from it and the pairs before."""
        return model(*self.inputs(example), tap=tap)

    def metrics(
        self, prediction: Float[Array, " point"], example: FunctionExample
    ) -> dict[str, Float[Array, "..."]]:
        """The scores of predictions.

        `loss` is the mean over all predictions that count, of squared errors that are
        not divided by anything (or of the cross-entropy in nats). `error` is by point:
        the squared error divided by the mean square of the values, or 1 for a wrong
        label. It is NaN where the prediction does not count.
        """
        scoring, counts = self.function.scoring, example.counts
        losses = jnp.where(counts, scoring.loss(prediction, example.ys), 0.0)
        error = scoring.error(prediction, example.ys, example.mean_square)
        return {
            "loss": jnp.sum(losses) / jnp.sum(counts),
            "error": jnp.where(counts, error, jnp.nan),
        }
