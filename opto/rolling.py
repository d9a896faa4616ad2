"""Models that go on writing: each answer becomes part of the next step's input."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._check_edits import as_edits
from ._checks import whole
from ._edit import AbstractEdit, Selection
from ._effects import warn_without_effect
from ._per_example import PerExample
from ._record import Record, Request
from ._run import raise_wrong, ran_with
from ._sweep import checked_table
from ._where import is_concrete, Where


@dataclasses.dataclass(frozen=True)
class Greedy:
    """The most likely token."""

    def __call__(
        self, logits: Float[Array, "*batch label"], key: PRNGKeyArray
    ) -> Int[Array, "*batch"]:
        return jnp.argmax(logits, -1)


@dataclasses.dataclass(frozen=True)
class Sample:
    """A token drawn from the softmax of the logits, divided by the temperature."""

    temperature: float = 1.0

    def __post_init__(self):
        if not self.temperature > 0:
            wanted = "temperature is a positive number (for 0, use Greedy)"
            raise ValueError(f"{wanted}, got {self.temperature}")

    def __call__(
        self, logits: Float[Array, "*batch label"], key: PRNGKeyArray
    ) -> Int[Array, "*batch"]:
        return jax.random.categorical(key, logits / self.temperature)


class Feed(abc.ABC):
    """How a model's answer enters its inputs; an instance is static."""

    @abc.abstractmethod
    def begin(
        self, inputs: tuple[Any, ...], steps: int, fill: int
    ) -> tuple[tuple[Any, ...], int]:
        """The inputs with room for the answers, filled with a number, and its start."""

    @abc.abstractmethod
    def newest(self, position: Any) -> Any:
        """The last position of the input from which `position` is filled."""

    @abc.abstractmethod
    def answer(self, outputs: Any, position: Any) -> Array:
        """The output that `position` is filled from."""

    @abc.abstractmethod
    def write(
        self, inputs: tuple[Any, ...], answer: Array, position: Any, key: Any
    ) -> tuple[Any, ...]:
        """The inputs with the answer at `position`."""


@dataclasses.dataclass(frozen=True)
class NextToken(Feed):
    """Appends a token to ids `[*batch, seq]`, by the logits `[*batch, seq, label]`."""

    choose: Callable[[Array, Any], Array] = Greedy()

    def begin(self, inputs, steps, fill):
        (ids,) = inputs
        ids = jnp.asarray(ids)
        if is_concrete(ids) and (ids[..., -1:] < 0).any():
            # The next token would be read from what padding gives.
            wanted = "prompts must end with a token, and have padding on the left"
            raise ValueError(f"{wanted}; got an id below 0 at their end")
        room = [(0, 0)] * (ids.ndim - 1) + [(0, steps)]
        return (jnp.pad(ids, room, constant_values=fill),), ids.shape[-1]

    def newest(self, position):
        return position - 1

    def answer(self, outputs, position):
        return jax.lax.dynamic_index_in_dim(outputs, position - 1, -2, False)

    def write(self, inputs, answer, position, key):
        (ids,) = inputs
        token = self.choose(answer, key).astype(ids.dtype)
        return (ids.at[..., position].set(token),)


@dataclasses.dataclass(frozen=True)
class OwnValue(Feed):
    """Takes predictions `[*batch, point]` as values: points go on, values do not.

    The inputs are points `[*batch, point, dim]` and values `[*batch, known]` of the
    first of them; there are as many steps as points without a value, or fewer.
    """

    def begin(self, inputs, steps, fill):
        points, values = map(jnp.asarray, inputs)
        known = values.shape[-1]
        if known + steps > points.shape[-2]:
            got = f"{points.shape[-2]} points, {known} values and {steps} steps"
            raise ValueError(f"each step needs a point; got {got}")
        points = points[..., : known + steps, :]
        room = [(0, 0)] * (values.ndim - 1) + [(0, steps)]
        return (points, jnp.pad(values, room, constant_values=fill)), known

    def newest(self, position):
        return position

    def answer(self, outputs, position):
        return jax.lax.dynamic_index_in_dim(outputs, position, -1, False)

    def write(self, inputs, answer, position, key):
        points, values = inputs
        return points, values.at[..., position].set(answer)


class RolledOut(NamedTuple):
    """What `opto.roll_out` gives.

    **Fields:**

    - `inputs`: The inputs with all answers: `(ids,)`, the prompt and what was written.
    - `answers`: By step, the output that an answer was taken from, `[step, *batch, …]`.
    - `record`: What was recorded at each step, `[step, *batch, …]`, over the whole
        length of `inputs`.
    """

    inputs: tuple[Any, ...]
    answers: Array
    record: Record


def roll_out(
    model: Callable[..., Any],
    *inputs: Any,
    steps: int,
    feed: Feed | None = None,
    edits: Sequence[AbstractEdit] = (),
    record: Request = (),
    seed: int = 0,
) -> RolledOut:
    """Lets a causal model go on, under edits, in one compiled scan.

    ```python
    written = opto.roll_out(model, ids, steps=32, edits=[opto.Zero(Z, pos=-1)])
    continued = written.inputs[0]  # [batch, seq + 32]
    ```

    Each step runs the model on the whole sequence, which has room for all answers from
    the start; a causal model does not see what is not written yet.

    **Arguments:**

    - `model`, `inputs`: As for `opto.run`; the prompt.
    - `steps`: How many answers are written.
    - `feed`: How they are: `opto.rolling.NextToken(choose)`, greedy by default, or
        `OwnValue()` for models of functions.
    - `edits`: In force in each step. A negative `pos` counts from the newest token of
        the step; other positions count from the first one, so `pos=range(n)` is a
        prompt of n tokens, and later positions are the continuation.
    - `record`: As for `opto.run`.
    - `seed`: For a feed that draws.

    **Raises:** `ValueError` as `opto.run`.

    **Warns:** `NoEffectWarning` for an edit that changes no entry in any step.
    """
    edits, steps = as_edits(edits), whole("steps", steps, 1)
    feed = NextToken() if feed is None else feed
    other, _ = feed.begin(inputs, steps, 1)
    inputs, first = feed.begin(inputs, steps, 0)
    table = checked_table(model, inputs, edits)
    _check_causal(model, feed, first, edits, inputs, other)
    keys = jax.random.split(jax.random.key(seed), steps)
    inputs, answers, found, entries, wrong = _rolled(
        model, inputs, feed, edits, record, jnp.arange(first, first + steps), keys
    )
    raise_wrong(wrong)
    warn_without_effect(edits, entries, table, [*found], "at any step")
    return RolledOut(inputs, answers, found)


@eqx.filter_jit
def _rolled(model, inputs, feed: Feed, edits, record, positions, keys):
    def step(inputs, now):
        position, key = now
        here = _counted_from(edits, feed.newest(position))
        ran = ran_with(model, inputs, record, here)
        answer = feed.answer(ran.outputs, position)
        entries = {place: x.entries.sum() for place, x in ran.changes.items()}
        new = feed.write(inputs, answer, position, key)
        return new, (answer, ran.record, entries, ran.findings)

    inputs, found = jax.lax.scan(step, inputs, (positions, keys))
    return inputs, *found


def _check_causal(
    model: Any, feed: Feed, first: int, edits: Any, *fillings: Any
) -> None:
    """Raises `ValueError` if the first answer depends on what is not written yet."""
    one, other = (_first_answer(model, feed, first, edits, x) for x in fillings)
    if not jnp.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
        what = f"{type(model).__name__}{' under these edits' if edits else ''}"
        raise ValueError(f"roll_out takes a causal model; {what} sees what comes later")


def _answer_at(model: Any, feed: Feed, first: int, edits: Any, inputs: Any) -> Array:
    here = _counted_from(edits, feed.newest(first))
    return feed.answer(ran_with(model, inputs, (), here).outputs, first)


# It runs once, so it is compiled quickly rather than well.
_QUICKLY: Any = {"compiler_options": {"xla_backend_optimization_level": 0}}
_first_answer: Any = eqx.filter_jit(_answer_at, **_QUICKLY)


def _counted_from(edits: Any, newest: Any) -> Any:
    """Edits whose negative positions count from the newest one."""

    from_newest = lambda index: jnp.where(index < 0, index + newest + 1, index)
    each = lambda x: eqx.is_array(x) or isinstance(x, PerExample)

    def moved(edit: Any) -> Any:
        if not isinstance(edit, Selection):
            return edit
        indices = {
            axis: jax.tree.map(from_newest, chosen)
            for axis, chosen in edit.where.indices.items()
            if axis in ("seq", "kv_seq") and each(chosen)
        }
        # Not the places of a `Patch` in its source, which has its own length.
        where = Where({**edit.where.indices, **indices}, edit.where.entries)
        return eqx.tree_at(lambda e: e.where, edit, where)

    return jax.tree.map(moved, edits, is_leaf=lambda x: isinstance(x, Selection))
