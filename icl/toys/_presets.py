"""Toys with clamps and measures, and those of two papers, as their code draws them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, UInt32

from ._descent import descend, Toy, ToyClamp, ToyDescent, Trace
from ._loss import AbstractForm, Coopetition, RankOne, Size, Tensor, ToyMeasure
from ._measures import LossAtTruth, Misalignment


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


def induction(dim: int = 20, form: AbstractForm = Tensor()) -> ToyStudy:  # noqa: B008
    r"""Three vectors; none, one or two of them are clamped to the true ones.

    $L = \frac{1}{2}\langle(t_a \otimes t_b \otimes t_c - p_a \otimes p_b \otimes
    p_c)^2\rangle$, descended for 1000 steps at learning rate 1: figures 5a and A9 of
    Singh et al. 2024 (arXiv 2404.07129), which use seed 1. All vectors are standard
    normal.

    **Arguments:**

    - `dim`: The size of each vector.
    - `form`: How the loss is computed.
    """
    loss = RankOne("abc", form)

    def draw(seed: Integer[Array, ""]) -> Toy:
        # JAX's random generator when the papers were written; this works when traced.
        with jax.threefry_partitionable(False):
            keys = jax.random.split(jax.random.PRNGKey(seed), 6)
            drawn = [_normal(key, dim) for key in keys]
        true = dict(zip("abc", drawn[:3], strict=True))
        start = dict(zip("abc", drawn[3:], strict=True))
        return Toy(loss, start, true)

    return ToyStudy(
        draw,
        ToyDescent(steps=1000),
        clamps={
            "none": (),
            "c": (ToyClamp("c"),),
            "b, c": (ToyClamp("b"), ToyClamp("c")),
        },
        measures={
            "misalignment of a": Misalignment("a"),
            "misalignment of b": Misalignment("b"),
            "misalignment of c": Misalignment("c"),
            "loss with b, c true": LossAtTruth(loss, "bc"),
        },
    )


def coopetition(
    offset: float = 0.1,
    dims: Sequence[int] = (20, 20, 20, 160),
    form: AbstractForm = Tensor(),  # noqa: B008
) -> ToyStudy:
    r"""Two mechanisms that share two vectors; one is fast but never perfect.

    $L = (L_1 + \mu_1)\,L_2 + 0.1 \cdot \frac{1}{2}\langle(p_a \otimes p_d)^2\rangle$,
    where $L_1$ is the `RankOne` loss of a, b, c and $L_2$ that of d, b, c: figure 5 of
    Singh et al. 2025 (arXiv 2503.05631), which uses seed 7. The first mechanism has the
    smaller tensor and stands for in-context learning. The second stands for
    context-constrained in-weights learning. Descended at learning rate 1 to a loss of
    $10^{-6}$, for at most 16,000 steps. All vectors are standard normal.

    **Arguments:**

    - `offset`: The floor of the first mechanism's loss, $\mu_1$. At 0, the mechanism
        that is learned first stays.
    - `dims`: The sizes of a, b, c and d.
    - `form`: How the losses are computed.
    """
    first, second = RankOne("abc", form), RankOne("dbc", form)
    cost = Size("ad", form)
    loss = Coopetition((first, second), (offset, 0.0), cost, 0.1)

    def draw(seed: Integer[Array, ""]) -> Toy:
        true, start = {}, {}
        with jax.threefry_partitionable(False):
            key = jax.random.PRNGKey(seed)
            for name, dim in zip("abcd", dims, strict=True):
                key, this = jax.random.split(key)
                for_true, for_start = jax.random.split(this)
                true[name] = _normal(for_true, dim)
                start[name] = _normal(for_start, dim)
        return Toy(loss, start, true)

    return ToyStudy(
        draw,
        ToyDescent(steps=16_000, tolerance=1e-6),
        clamps={"none": ()},
        measures={"mechanism 1": first, "mechanism 2": second, "cost": cost},
    )


def _normal(key: UInt32[Array, "2"], dim: int) -> Float[Array, " dim"]:
    return jax.random.normal(key, (dim,), jnp.float32)  # float32 even if JAX uses 64
