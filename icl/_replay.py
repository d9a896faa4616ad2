"""Measures over the checkpoints of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree
from tqdm import tqdm

import opto

from ._compile import jit
from ._training import check_edits
from .experiment import Trained
from .measures import Measure, sites_of


# Checkpoints that are read and mapped over at once; bounds the memory.
_STACK = 16


def replay(
    trained: Trained,
    measures: Mapping[str, Measure],
    batch: PyTree,
    *,
    edits: Sequence[opto.AbstractEdit] | None = None,
    checkpoints: Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """Takes measures of a batch at each checkpoint of a run, in one compiled program.

    **Arguments:**

    - `trained`: A run, from `icl.load`.
    - `measures`: What to measure, by name.
    - `batch`: Examples of the run's task, such as `trained.evaluations["train"]`.
    - `edits`: In force; `None` is the edits that the run was trained under.
    - `checkpoints`: Sequences seen, -1 for the last; `None` is all there are.

    **Returns:**

    For each measure an array `[checkpoint, ...]`, and `"sequences"`, `[checkpoint]`.

    **Raises:** `ValueError` for a checkpoint, site or edit that does not exist.
    """
    run = trained.run
    if checkpoints is None:
        chosen = run.checkpoints
    else:
        chosen = [run.find(step) for step in checkpoints]
    if "sequences" in measures:
        raise ValueError("a measure cannot be named 'sequences', which are returned")
    if not chosen:
        raise ValueError(f"{run.path} has no checkpoints to replay")
    first = jax.tree.map(lambda x: x[0], batch)
    edits = trained.edits if edits is None else edits
    edits = check_edits(trained.model, trained.task, edits, first)
    program = _program(trained, dict(measures), edits)
    size = min(_STACK, len(chosen))
    rows: list[dict[str, np.ndarray]] = []
    with tqdm(total=len(chosen), desc="replay", unit="checkpoint", disable=None) as bar:
        for start in range(0, len(chosen), size):
            now = chosen[start : start + size]
            models = [_arrays(run.load(trained.model, step)) for step in now]
            # The last stack is filled up to full size: one shape, one compilation.
            models += [models[-1]] * (size - len(now))
            stack = jax.tree.map(lambda *xs: np.stack(xs), *models)
            result = jax.device_get(program(stack, batch))
            count = len(now)
            rows.append({name: x[:count] for name, x in result.items()})
            bar.update(len(now))
    joined = {name: np.concatenate([row[name] for row in rows]) for name in measures}
    return {"sequences": np.asarray(chosen), **joined}


def _program(trained: Trained, measures: dict[str, Measure], edits):
    static = eqx.filter(trained.model, eqx.is_array, inverse=True)
    record = sites_of(measures)

    def at_checkpoint(arrays: PyTree, batch: PyTree) -> dict[str, Any]:
        model = eqx.combine(arrays, static)

        def one(example):
            return opto.visit(
                trained.task.forward, model, example, record=record, edits=edits
            )

        outputs, recorded = jax.vmap(one)(batch)
        return {name: m.fn(recorded, outputs, batch) for name, m in measures.items()}

    def program(stack: PyTree, batch: PyTree) -> dict[str, Any]:
        return jax.lax.map(lambda arrays: at_checkpoint(arrays, batch), stack)

    return jit(program)


def _arrays(model: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, eqx.filter(model, eqx.is_array))
