"""The work of a replay: takes the missing measures, stack by stack."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed, ThreadPoolExecutor
from secrets import token_hex
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from tqdm import tqdm

import opto

from ..compile import jit
from ..experiments import Trained
from ..measures import AnyMeasure
from ..runs.checkpoints import CheckpointReader
from ._cache import Kept, key_of, text_of
from ._program import Batch, computation


# New values are written if this many seconds have passed since the last time.
_SAVE_EVERY = 10.0
# How many checkpoints are mapped over at once, if they have at most so many bytes.
_STACK, _STACK_BYTES = 8, 2**27


@dataclasses.dataclass(frozen=True)
class Question:
    """A measure, and its values that are known already."""

    measure: AnyMeasure
    program: str
    """The text of what the measure computes; random if it has none."""
    kept: Kept

    @staticmethod
    def of(
        trained: Trained,
        name: str,
        measure: AnyMeasure,
        found: opto.toolkit.Combinations,
        batch: Batch,
    ) -> "Question":
        compute = computation(trained, {"": measure})
        arrays = eqx.filter(trained.model, eqx.is_array)
        moving, still = eqx.partition(found, eqx.is_array)

        def program(arrays: PyTree, moving: PyTree, batch: Batch) -> Any:
            return compute(arrays, eqx.combine(moving, still), batch)[""]

        try:
            text = text_of(program, arrays, moving, batch)
        except (KeyError, TypeError, ValueError) as error:
            reason = error.args[0] if isinstance(error, KeyError) else error
            raise ValueError(f"measure {name!r}: {reason}") from error
        key = None if text is None else key_of(text, (moving, batch))
        return Question(measure, text or token_hex(), Kept(trained.run, key))


def answer(
    trained: Trained,
    questions: Mapping[str, Question],
    chosen: Sequence[int],
    found: opto.toolkit.Combinations,
    batch: Batch,
    about: Mapping[str, str],
    check: Callable[[], None],
) -> None:
    """Measures what is missing and keeps it; calls `check` before it measures."""
    todo = {
        name: [at for at in chosen if at not in question.kept]
        for name, question in questions.items()
    }
    asked = {name: questions[name] for name, missing in todo.items() if missing}
    if not asked:
        return
    check()
    # Where one measure is missing, take all: the forward costs more than the measures.
    missing = sorted({at for name in asked for at in todo[name]})
    saved, done = time.monotonic(), 0

    def write() -> None:
        for name, question in asked.items():
            question.kept.write({"measure": name, **about})

    try:
        with tqdm(
            total=len(missing), desc="replay", unit="checkpoint", disable=None
        ) as bar:
            for at, digest, values in _measured(trained, asked, missing, found, batch):
                for name, question in asked.items():
                    question.kept.add(at, digest, values[name])
                done += 1
                bar.update()
                if time.monotonic() - saved > _SAVE_EVERY:
                    write()
                    saved = time.monotonic()
    finally:
        if done:
            write()


_Row = tuple[int, str, dict[str, np.ndarray]]


def _measured(
    trained: Trained,
    asked: Mapping[str, Question],
    missing: Sequence[int],
    found: opto.toolkit.Combinations,
    batch: Batch,
) -> Iterator[_Row]:
    """The values at each checkpoint; stacks come in the order in which they finish."""
    run, template = trained.run, eqx.filter(trained.model, eqx.is_array)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(template))
    stack = max(1, min(_STACK, _STACK_BYTES // max(size, 1)))
    program, alone = _compiled(trained, asked, stack, found, batch)
    reader = CheckpointReader(run, trained.model)

    def work(some: Sequence[int]) -> list[_Row]:
        found = [run.read_checkpoint(at) for at in some]
        trees = [
            reader.arrays(checked.content, at)
            for checked, at in zip(found, some, strict=True)
        ]
        # Fill up the last stack, so that one compiled shape serves all stacks.
        trees += [trees[-1]] * (stack - len(trees))
        values = program(jax.tree.map(lambda *xs: np.stack(xs), *trees), len(some))
        return [
            (at, found[k].digest, {name: x[k, ...] for name, x in values.items()})
            for k, at in enumerate(some)
        ]

    # Some threads wait for the disk or for XLA while others compute.
    workers = 1 if alone else min(4, os.cpu_count() or 1)
    stacks = [missing[k : k + stack] for k in range(0, len(missing), stack)]
    with ThreadPoolExecutor(workers) as pool:
        try:
            for future in as_completed([pool.submit(work, some) for some in stacks]):
                yield from future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_PROGRAMS: dict[Any, Any] = {}


def _compiled(
    trained: Trained,
    asked: Mapping[str, Question],
    stack: int,
    found: opto.toolkit.Combinations,
    batch: Batch,
) -> tuple[Callable[[PyTree, int], dict[str, np.ndarray]], bool]:
    """The program for stacks of checkpoints, compiled once for runs of one shape.

    **Returns:** The program, and whether two threads must not run it at the same time:
    on a CPU, LAPACK's calls of two programs at once can make XLA wait forever.
    """
    measures = {name: question.measure for name, question in asked.items()}
    compute = computation(trained, measures)
    inputs, still = eqx.partition((found, batch), eqx.is_array)
    leaves, structure = jax.tree.flatten(inputs)

    @jax.jit  # Traced only once, both for its shapes and for its values.
    def one(arrays: PyTree, leaves: list[Any]) -> Any:
        inputs = eqx.combine(jax.tree.unflatten(structure, leaves), still)
        return compute(arrays, *inputs)

    def program(arrays: PyTree, count: Any, leaves: list[Any]) -> PyTree:
        shapes = jax.eval_shape(one, jax.tree.map(lambda x: x[0], arrays), leaves)
        rows = jax.tree.map(lambda x: jnp.zeros((stack, *x.shape), x.dtype), shapes)

        def at(k: Any, rows: PyTree) -> PyTree:
            values = one(jax.tree.map(lambda x: x[k], arrays), leaves)
            return jax.tree.map(lambda row, x: row.at[k].set(x), rows, values)

        return jax.lax.fori_loop(0, count, at, rows)

    # Programs with the same text differ at most in the names of their edits.
    texts = tuple((name, question.program) for name, question in asked.items())
    arrays = eqx.filter(trained.model, eqx.is_array)
    key = texts, stack, jax.tree.structure((arrays, leaves))
    if key not in _PROGRAMS:
        if len(_PROGRAMS) >= 32:
            _PROGRAMS.clear()
        stacked = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((stack, *x.shape), x.dtype), arrays
        )
        lower: Any = jit(program)
        lowered = lower.lower(stacked, 0, leaves)
        _PROGRAMS[key] = lowered.compile(), "@lapack_" in lowered.as_text()
    compiled, alone = _PROGRAMS[key]
    return lambda *args: jax.device_get(compiled(*args, leaves)), alone
