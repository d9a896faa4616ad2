"""Errors by the number of pairs before the query, for many shifts in one program.

All shifts have data of one shape, which are an argument of the program. So a model or a
baseline compiles once for a single position. For several positions it compiles twice if
the shifts are of both kinds, of prompts and of queries.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

import opto

from ..protocols import Bounds
from ..summaries import BootstrapInterval, CountedMean
from ..tasks.functions import FunctionExample, InContextFunction
from ..tasks.functions.shifts import check_change, largest_change
from ..tasks.functions.shifts.self_test import CLEAR
from ..tasks.functions.task import Prompt
from ..text import ArraysByShape


# How many prompts go through a model at once, so that they fit into the caches.
_CHUNK = 32
# A weak shift is looked for in so many times as many prompts, and in at least so many.
_MORE, _LEAST = 16, 4096
Predictor = Callable[..., Float[Array, " point"]]
"""A model or a baseline: `(xs, ys, tap=) -> predictions`, for one prompt."""


@dataclasses.dataclass(frozen=True)
class PromptSets:
    """Prompts of several tasks of one shape, from `draw_prompts`.

    **Fields:**

    - `tasks`: The tasks by name.
    - `prompts`: Their prompts, `[set, sequence, …]`.
    """

    tasks: Mapping[str, InContextFunction]
    prompts: Prompt


@dataclasses.dataclass(frozen=True, repr=False)
class ErrorCurves(ArraysByShape):
    """Errors by context length, divided by the mean square of the values.

    **Fields:**

    - `names`: The tasks' names.
    - `positions`: How many pairs are before the query, `[position]`.
    - `rows`: The errors of each prompt, `[set, sequence, position]`; NaN where a shift
        has no such query.
    """

    names: tuple[str, ...]
    positions: Int[np.ndarray, " position"]
    rows: Float[np.ndarray, "set sequence position"]

    @property
    def mean(self) -> Float[np.ndarray, "set position"]:
        """The mean over prompts."""
        mean = CountedMean("error")
        return np.stack([mean(_finite(rows)) for rows in self.rows])

    def interval(self, level: float = 0.9) -> Bounds:
        """A bootstrap interval of each mean, `[set, position]`."""
        summary = BootstrapInterval("error", level)
        found = [summary(_finite(rows)) for rows in self.rows]
        low, high = ([getattr(x, k) for x in found] for k in ("low", "high"))
        return Bounds(np.stack(low), np.stack(high))

    def of(self, name: str) -> Float[np.ndarray, " position"]:
        """The mean errors of one task."""
        return self.mean[self.names.index(name)]


def draw_prompts(
    tasks: Mapping[str, InContextFunction], size: int, *, key: PRNGKeyArray
) -> PromptSets:
    """Prompts of each task, all from the same standard normal draws.

    Each shift is compared with the same draws without it.

    **Raises:** `ValueError` if the tasks have different sizes, and for a shift that
    does not change the distribution of prompts.
    """
    tasks = dict(tasks)
    first = next(iter(tasks.values()))
    for name, task in tasks.items():
        if task.interface != first.interface:
            got = f"{first.interface} and {task.interface} ({name})"
            raise ValueError(f"the tasks must have prompts of one size, got {got}")
        if task.function.scoring != first.function.scoring:
            got = f"{first.function} and {task.function} ({name})"
            raise ValueError(f"the tasks must be scored alike, got {got}")
        if task.curriculum is not None:
            raise ValueError(f"task {name}: errors need whole prompts: no curriculum")
    drawn = [_drawn(task, size, key) for task in tasks.values()]
    plain = _drawn(dataclasses.replace(first, shift=None), size, key)
    for (name, task), prompts in zip(tasks.items(), drawn, strict=True):
        if task.shift is not None and not _differ(task, prompts, plain):
            pair = [dataclasses.replace(task, shift=x) for x in (task.shift, None)]
            more = [_drawn(x, max(_MORE * size, _LEAST), key) for x in pair]
            where = task.shift.queries(task.points, task.dim)
            check_change(name, *(_asked(x, where) for x in more))
    prompts = jax.tree.map(lambda *x: jnp.stack(x), *drawn)
    return PromptSets(tasks, prompts)


def errors_by_context(
    predictor: Predictor,
    sets: PromptSets,
    *,
    positions: Sequence[int] | None = None,
    edits: Sequence[opto.toolkit.AbstractEdit] = (),
) -> ErrorCurves:
    """The errors of a model or a baseline on each set, by context length.

    Under a shift of the query, position i has the points before i from the context, and
    point i from the queries; each position is a forward pass of its own. Otherwise one
    pass has all positions. With a single position, both are the same pass, and all sets
    share one program.

    **Arguments:**

    - `positions`: How many pairs are before the query; -1 for the most. The default is
        all numbers.
    - `edits`: Active in each forward pass of a model.

    **Raises:** `ValueError` for a position outside of a prompt, and for edits that
    cannot apply.
    """
    first = next(iter(sets.tasks.values()))
    places = [*range(first.points)]
    if positions is not None:
        try:
            places = [places[at] for at in positions]
        except IndexError:
            wanted = f"positions must be below points={first.points}"
            raise ValueError(f"{wanted}, got {positions}") from None
    asked = [t.shift and t.shift.queries(t.points, t.dim) for t in sets.tasks.values()]
    rows = np.full((len(asked), sets.prompts.query_y.shape[1], len(places)), np.nan)
    apart = [len(places) == 1 or queries is not None for queries in asked]
    for by_position in (False, True):
        chosen = [k for k, x in enumerate(apart) if x == by_position]
        if chosen:
            prompts = _subset(sets.prompts, chosen)
            run = _each_position if by_position else _one_pass
            found = run(predictor, prompts, jnp.asarray(places), tuple(edits))
            rows[chosen] = _scored(found, prompts, places, first)
    for k, (task, queries) in enumerate(zip(sets.tasks.values(), asked, strict=True)):
        rows[k] /= task.mean_square
        if queries is not None:
            rows[k][:, [at not in queries for at in places]] = np.nan
    return ErrorCurves(tuple(sets.tasks), np.asarray(places), rows)


def _subset(prompts: Prompt, chosen: list[int]) -> Prompt:
    return jax.tree.map(lambda x: x[np.array(chosen)], prompts)


def _drawn(task: InContextFunction, size: int, key: PRNGKeyArray) -> Prompt:
    # Not compiled as a whole: hundreds of shifts would take minutes to compile. Each
    # operation compiles once for all of them.
    return jax.vmap(lambda key: task.prompt(key=key))(jax.random.split(key, size))


def _differ(task: InContextFunction, prompts: Prompt, plain: Prompt) -> bool:
    """Whether a shift's prompts clearly differ from those of the same draws."""
    where = task.shift and task.shift.queries(task.points, task.dim)
    return largest_change(_asked(prompts, where), _asked(plain, where)) >= CLEAR


def _asked(prompts: Prompt, where: range | None) -> FunctionExample:
    """The prompts with their last possible query in place."""
    points = prompts.query_y.shape[1]
    at = points - 1 if where is None else where.stop - 1
    counts = jnp.broadcast_to(jnp.arange(points) == at, prompts.query_y.shape)
    xs = jnp.where(counts[..., None], prompts.query_x, prompts.context_x)
    return FunctionExample(xs, prompts.query_y, counts, jnp.ones(len(xs)))


@eqx.filter_jit
def _one_pass(
    predictor: Any, prompts: Prompt, places: Array, edits: tuple
) -> Float[Array, "set sequence position"]:
    def one(prompt: Prompt) -> Array:
        return _predicted(predictor, edits, prompt.query_x, prompt.query_y)[places]

    return _over_prompts(one, prompts)


@eqx.filter_jit
def _each_position(
    predictor: Any, prompts: Prompt, places: Array, edits: tuple
) -> Float[Array, "set sequence position"]:
    def one(prompt: Prompt) -> Array:
        def at(place: Array) -> Array:
            known = jnp.arange(len(prompt.query_y)) < place
            xs = jnp.where(known[:, None], prompt.context_x, prompt.query_x)
            ys = jnp.where(known, prompt.context_y, prompt.query_y)
            return _predicted(predictor, edits, xs, ys)[place]

        return jax.vmap(at)(places)

    return _over_prompts(one, prompts)


def _predicted(predictor: Any, edits: tuple, xs: Array, ys: Array) -> Array:
    return (
        opto.toolkit.lift(predictor)(xs, ys, edits=edits)
        if edits
        else predictor(xs, ys)
    )


def _over_prompts(one: Callable[[Prompt], Array], prompts: Prompt) -> Array:
    """The function of each prompt, `[set, sequence, …]`, some prompts at a time."""
    lead = prompts.query_y.shape[:2]
    count = math.prod(lead)
    # The first prompts again fill up the last piece: a smaller one would be compiled
    # by itself.
    places = np.arange(-(-count // _CHUNK) * _CHUNK) % count

    def pieces(x: Array) -> Array:
        return x.reshape(count, *x.shape[2:])[places].reshape(-1, _CHUNK, *x.shape[2:])

    found = jax.lax.map(jax.vmap(one), jax.tree.map(pieces, prompts))
    return found.reshape(-1, *found.shape[2:])[:count].reshape(*lead, *found.shape[2:])


def _scored(
    found: Array, prompts: Prompt, places: list[int], task: InContextFunction
) -> np.ndarray:
    values = prompts.query_y[:, :, jnp.asarray(places)]
    scored = task.function.scoring.error(found, values, jnp.ones(()))
    return np.asarray(scored, np.float64)


def _finite(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Rows for a summary; a shift without a query has a column of NaN."""
    there = ~np.isnan(rows).all(0)
    return {"error": rows, "loss": rows[:, there]}
