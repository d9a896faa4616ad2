"""A figure of a toy: what is drawn, clamped and measured."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer

from ._clamp import ToyClamp
from ._descent import descend, GradientDescent
from ._toy import Toy, Trace
from ._vectors import ToyMeasure


@dataclasses.dataclass(frozen=True)
class ToyStudy:
    """A toy for each seed, descended under each of some clamps."""

    draw: Callable[[Integer[Array, ""]], Toy]
    """The toy of a seed, a function that can be traced."""
    descent: GradientDescent
    clamps: Mapping[str, Sequence[ToyClamp]]
    """By what each condition is called."""
    measures: Mapping[str, ToyMeasure]
    """By what each is called."""


def run(study: ToyStudy, seeds: int | Sequence[int]) -> dict[str, Trace]:
    """Descends a study's toys.

    **Arguments:**

    - `study`: Such as `induction()` or `coopetition()`.
    - `seeds`: One, or several, which descend in one program.

    **Returns:**

    By condition, the trace as NumPy arrays; with several seeds, `[seed, step]`.
    """
    one = isinstance(seeds, int)
    numbers = jnp.asarray(seeds if one else tuple(seeds), jnp.uint32)
    # One toy is not batched, so that it stops early and rounds as when alone.
    toys = study.draw(numbers) if one else eqx.filter_vmap(study.draw)(numbers)
    traces = {}
    for name, clamps in study.clamps.items():
        follow = functools.partial(
            descend, how=study.descent, clamps=clamps, measures=study.measures
        )
        trace = follow(toys) if one else eqx.filter_vmap(follow)(toys)
        traces[name] = jax.tree.map(np.asarray, trace)
    return traces
