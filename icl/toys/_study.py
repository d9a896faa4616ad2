"""A figure of a toy: its draws, clamps and measures."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer

from ._clamp import ToyClamp
from ._descent import descend, ToyDescent
from ._toy import Toy, Trace
from ._vectors import ToyMeasure


@dataclasses.dataclass(frozen=True)
class ToyStudy:
    """One toy for each seed, descended under several sets of clamps."""

    draw: Callable[[Integer[Array, ""]], Toy]
    """A function from a seed to its toy; JAX can trace it."""
    descent: ToyDescent
    clamps: Mapping[str, Sequence[ToyClamp]]
    """The clamps of each condition, by its name."""
    measures: Mapping[str, ToyMeasure]
    """The measures by name."""


def run(study: ToyStudy, seeds: int | Sequence[int]) -> dict[str, Trace]:
    """Descends a study's toys.

    **Arguments:**

    - `study`: For example `induction()` or `coopetition()`.
    - `seeds`: One seed, or several, which descend in one program.

    **Returns:**

    For each condition, the trace as NumPy arrays; with several seeds, `[seed, step]`.
    """
    one = isinstance(seeds, int)
    numbers = jnp.asarray(seeds if one else tuple(seeds), jnp.uint32)
    # Do not batch a single toy: then it stops early and rounds as it does alone.
    toys = study.draw(numbers) if one else eqx.filter_vmap(study.draw)(numbers)
    traces = {}
    for name, clamps in study.clamps.items():
        follow = functools.partial(
            descend, how=study.descent, clamps=clamps, measures=study.measures
        )
        trace = follow(toys) if one else eqx.filter_vmap(follow)(toys)
        traces[name] = jax.tree.map(np.asarray, trace)
    return traces
