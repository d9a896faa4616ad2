"""Takes measures at the checkpoints of a run."""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

import opto
from opto.toolkit import raise_wrong, ran_with, several, warn_without_effect

from .. import compat
from ..edits.ablation import on_batch
from ..experiments import load, Trained
from ..experiments.sets import find_set
from ..measures import (
    AnyMeasure,
    EachSequence,
    GroupMean,
    lacking,
    Measure,
    OfModel,
    Under,
)
from ..runs import Run
from ..tasks.exemplar_label.dense import GroupedSequences
from ._program import Batch, batch_of
from ._result import Replay
from ._stacks import answer, Question


# How many sequences edits are tried on at once, to bound the memory.
_CHECKED = 4096

# Edits, which may be swept.
Edits = Sequence[Any]

# What can be replayed: see `replay`.
Replayable = str | os.PathLike | Run | Trained | Sequence[str | os.PathLike]


def replay(
    run: Replayable,
    measures: Mapping[str, AnyMeasure],
    *,
    data: str | PyTree = "train",
    edits: Edits | None = None,
    checkpoints: Iterable[int] | None = None,
) -> Replay:
    """Takes measures of a batch at each checkpoint of a run, in one compiled program.

    The values are stored in the run's folder, in `replays/`, with all they depend on:
    the checkpoint's content, the text of the measure's program with its edits, the
    batch, and the versions of icl-opto and jax. A replay that was killed continues from
    there; one that was finished is read. A measure that calls back into Python is not
    stored.

    Only the results need more memory if there are more checkpoints.

    ```python
    found = icl.replay(
        "runs/demo",
        {"strength": measures.induction_strength()},
        edits=[opto.Zero("blocks.0.attn.z").each("head")],
    )
    found["strength"]  # [checkpoint, edit_head, layer, head]
    ```

    **Arguments:**

    - `run`: A run's folder, or what `icl.load` gives. Or folders of Hugging Face, as a
        list or a pattern with `*`: a model at several training steps, as
        `icl.compat.hugging_face.training_steps` reads them.
    - `measures`: What to measure, by name; see `icl.measures`.
    - `data`: The name of one of the run's evaluation sets; or `dense` or `dense:N`
        (every sequence of 100 or N pairs of classes); or what `icl.dense_set` gives; or
        a batch of examples of the run's task, from `load_sequences` of
        `icl.tasks.exemplar_label` or from `icl.batches.batch`.
    - `edits`: The edits to apply; `None` takes those that the run was trained under.
        Edits made with `each` or `opto.stack` are swept: all combinations are measured.
    - `checkpoints`: Sequences seen, -1 for the last; `None` takes all checkpoints.

    **Returns:**

    A `Replay`. The axes of its arrays are the checkpoint, then those of the sweep, then
    those of the measure. If an axis of the sweep has the same name as one of the
    measure, it gets the prefix `edit_`.

    **Raises:** `ValueError` for a set, checkpoint, site or edit that does not exist,
    and for edits that cannot apply to these sequences.
    """
    _check(measures, edits)
    trained = trained_of(run)
    chosen = _chosen(trained.run, checkpoints)
    sequences = _sequences(trained, data)
    batch = batch_of(trained, sequences)
    _check_weights(trained, measures, edits)
    _check_sites(trained, measures, batch)
    edits = trained.edits if edits is None else several(edits)
    one = trained.model, batch.at(0)
    found = opto.toolkit.combinations(trained.task.forward, one, edits)
    questions = {
        name: Question.of(trained, name, measure, found, batch)
        for name, measure in measures.items()
    }
    about = {"edits": repr(edits)}
    check = lambda: _check_apply(trained, measures, found, batch)
    answer(trained, questions, chosen, found, batch, about, check)
    values = {
        name: np.stack([question.kept[checkpoint] for checkpoint in chosen])
        for name, question in questions.items()
    }
    plain = {
        name: measure.measure if isinstance(measure, Under) else measure
        for name, measure in measures.items()
    }
    axes = {
        name: " ".join(_axes(plain[name], value, found.axes))
        for name, value in values.items()
    }
    labels = {name: measure.label for name, measure in plain.items()}
    steps = np.asarray(chosen, np.int64)
    return Replay(steps, values, axes, labels, trained.run.seen)


def replays(
    runs: Iterable[Replayable],
    measures: Mapping[str, AnyMeasure],
    **arguments: Any,
) -> list[Replay]:
    """`replay` for several runs; runs of the same shape share the compiled programs.

    **Arguments:** As for `replay`. A set's name means each run's own set of that name.
    """
    return [replay(run, measures, **arguments) for run in runs]


def trained_of(run: Replayable) -> Trained:
    """What can be replayed, ready for analysis; see `replay`."""
    if isinstance(run, Trained):
        return run
    if isinstance(run, Run):
        return load(run.path)
    if isinstance(run, str | os.PathLike):
        pattern = os.fspath(run)
        if os.path.exists(pattern) or "*" not in pattern:
            return load(run)
        return compat.hugging_face.training_steps(pattern)
    return compat.hugging_face.training_steps(run)


# What is asked


def _check(measures: Mapping[str, AnyMeasure], edits: Edits | None) -> None:
    for name, measure in measures.items():
        # The names are also names in HDF5 files.
        if not name.strip(".") or "/" in name:
            raise ValueError(f"a measure's name must be text without '/', got {name!r}")
        if not isinstance(measure, Measure | Under | OfModel):
            kind = type(measure).__name__
            wanted = "an icl.measures.Measure, Under or OfModel"
            raise ValueError(f"measure {name!r} must be {wanted}, got {kind}")
        if edits and _reads_weights(measure):
            wanted = "reads the weights, which edits do not change: remove the edits"
            raise ValueError(f"measure {name!r} {wanted}")


def _reads_weights(measure: AnyMeasure) -> bool:
    return isinstance(measure, OfModel) and measure.reads == "weights"


def _check_weights(
    trained: Trained, measures: Mapping[str, AnyMeasure], edits: Edits | None
) -> None:
    """Raises `ValueError` for measures of weights that a graft replaced."""
    grafts = [edit for edit in trained.edits if isinstance(edit, opto.Graft)]
    for name, measure in measures.items():
        if edits is None and grafts and _reads_weights(measure):
            was = "reads the run's own weights, but a graft replaced them in training"
            raise ValueError(
                f"measure {name!r} {was}: {grafts[0]!r}; pass edits=() for its own"
            )


def _chosen(run: Run, checkpoints: Iterable[int] | None) -> list[int]:
    chosen = run.checkpoints
    if checkpoints is not None:
        chosen = list(dict.fromkeys(run.find(at) for at in checkpoints))
    if not chosen:
        raise ValueError(f"{run.path} has no checkpoints to replay")
    return chosen


def _sequences(trained: Trained, data: str | PyTree) -> PyTree:
    if isinstance(data, str):
        return find_set(trained, data)
    lengths = {np.shape(x)[:1] for x in jax.tree.leaves(data)}
    one_length = len(lengths) == 1 and not lengths <= {(), (0,)}
    plain = isinstance(data, Mapping | np.ndarray | jax.Array)
    if not isinstance(data, GroupedSequences) and (plain or not one_length):
        wanted = "the name of an evaluation set, or a batch of sequences"
        raise ValueError(f"data must be {wanted}, got {type(data).__name__}")
    return data


def _check_sites(
    trained: Trained, measures: Mapping[str, AnyMeasure], batch: Batch
) -> None:
    """Raises `ValueError` for a measure whose sites the model does not have."""
    table = opto.sites(trained.task.forward, trained.model, batch.at(0))
    for name, measure in measures.items():
        if reason := lacking(measure, table, trained.model):
            raise ValueError(f"measure {name!r}: {reason}")
        if isinstance(measure, Under):
            opto.toolkit.check(measure.edits, table, record=measure.measure.record)


def _check_apply(
    trained: Trained,
    measures: Mapping[str, AnyMeasure],
    found: opto.toolkit.Combinations,
    batch: Batch,
) -> None:
    """Raises `ValueError` if an edit cannot apply to some of the sequences.

    A compiled program cannot raise this error: its values would be NaN. Also warns of
    edits that change nothing in the model that was loaded. A measure's own edits may
    undo the other edits, and some points of a sweep may change nothing.
    """
    further = [(), *(tuple(m.edits) for m in measures.values() if isinstance(m, Under))]
    for base, more in itertools.product(_bases(found), further):
        every = (*base, *more)
        measured = bool(base) and not more and not found.axes
        if not measured and all(isinstance(edit, opto.toolkit.Edit) for edit in every):
            continue
        changed: dict[Any, int] = {}
        for start in range(0, len(batch), _CHECKED):
            some = batch.at(slice(start, start + _CHECKED))
            forward = on_batch(trained.model, trained.task, some)[0]
            ran = ran_with(forward, tuple(jax.tree.leaves(some)), (), every)
            raise_wrong(ran.findings)
            for place, change in ran.changes.items():
                count = int(np.asarray(change.entries).sum())
                changed[place] = changed.get(place, 0) + count
            if measured and start + _CHECKED >= len(batch):
                warn_without_effect(ran.edits, changed, ran.table)


def _bases(
    found: opto.toolkit.Combinations,
) -> Iterator[tuple[opto.toolkit.AbstractEdit, ...]]:
    """The edits of each combination; of only one if no derived edit is swept."""
    if not found.axes:
        yield found.at([])
        return
    at = lambda k: found.at(jax.tree.map(lambda x: x[k], found.moving))
    derived = lambda edits: [e for e in edits if not isinstance(e, opto.toolkit.Edit)]
    same = eqx.tree_equal(derived(at(0)), derived(at(-1)))
    for k in range(1 if same else math.prod(found.shape)):
        yield at(k)


def _axes(
    measure: Measure | OfModel, value: np.ndarray, swept: Sequence[str]
) -> list[str]:
    """The names of a value's axes, all different; numbers if the measure has no names.

    **Arguments:** `swept`: The names of the sweep's axes.
    """
    over = measure.over if isinstance(measure, Measure) else None
    front = {EachSequence: ["sequence"], GroupMean: ["group"]}.get(type(over), [])
    rest = value.ndim - 1 - len(swept) - len(front)
    named = measure.axes.split()
    own = [*front, *(named if len(named) == rest else map(str, range(rest)))]
    return ["checkpoint", *(f"edit_{x}" if x in own else x for x in swept), *own]
