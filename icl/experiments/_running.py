"""Training experiments into run folders, one at a time or together in one program."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Sequence as ListLike
from typing import TypeVar

import jax
import jax.numpy as jnp

from ..batches import save_batches
from ..data import digest, Source
from ..edits.ranked import FoundHeads, keep_heads, kept_heads, measured_heads
from ..runs import disk, is_run, open_run, RunWriter
from ..training import fit, Member, prepare, Result
from ..training.loggers import Logger
from ._experiment import Experiment
from .sets import check_not_dense


Made = TypeVar("Made")
OnFailure = Callable[[int, ValueError], None]


def run_experiment(
    experiment: Experiment,
    out: str | os.PathLike,
    *,
    resume: bool = False,
    logger: Logger | None = None,
) -> Result:
    """Trains an experiment into a run folder.

    **Arguments:**

    - `out`: The folder; `icl.runs.open_run` says when it raises an error.
    - `resume`: Continue the run in the folder.
    - `logger`: Gets the numbers of the run.

    **Raises:** `ValueError` for bad configs and folders, and if the data's file has
    changed since the run began; `FloatingPointError` if the loss or the gradient
    stops being finite.
    """
    loggers = [] if logger is None else [logger]
    return run_experiments([experiment], [out], resume=resume, loggers=loggers)[0]


def run_experiments(
    experiments: Iterable[Experiment],
    outs: Iterable[str | os.PathLike],
    *,
    resume: bool = False,
    loggers: Iterable[Logger] = (),
    on_failure: OnFailure | None = None,
) -> list[Result]:
    """Trains experiments that differ only in numbers, as the members of one program.

    Seeds, learning rates, the edits' values and the heads that they select may differ;
    `fit` says what may not.

    **Arguments:**

    - `outs`: A run folder for each; `icl.runs.open_run` says when it raises an error.
    - `resume`: Continue the runs in the folders.
    - `loggers`: One for each experiment; each gets the numbers of its run.
    - `on_failure`: Called with the index of an experiment that cannot be built or whose
        folder cannot be used, and with the reason. The other experiments continue, and
        only their results are returned. By default the first failure ends all.

    **Raises:** As `run_experiment`, and `ValueError` if the experiments cannot share a
    program.
    """
    experiments, outs, loggers = list(experiments), list(outs), list(loggers)
    _check_together(experiments, outs)
    attempt = functools.partial(_attempt, on_failure)
    training = experiments[0].training
    load, hashed = functools.cache(_load), functools.cache(digest)
    with contextlib.ExitStack() as stack:
        about: dict[str, int] = {}

        def enter(index: int) -> RunWriter:
            experiment = pinned[index]
            if index not in begun:  # An older run may have such a set.
                check_not_dense(experiment.evaluations)
            opened = open_run(outs[index], experiment, resume=resume, about=about)
            return _entered(stack, opened, experiment.data and hashed(experiment.data))

        def build(index: int) -> Member:
            data = load(pinned[index].data)
            return pinned[index].member(data, heads[index], runs.get(index))

        def keep(index: int) -> RunWriter:
            keep_heads(runs[index].path, heads[index])
            _keep_sets(runs[index], members[index])
            return runs[index]

        # Once: a source run may get more checkpoints meanwhile.
        pinned = attempt(lambda index: experiments[index].pinned(), range(len(outs)))
        begun = [index for index in pinned if is_run(outs[index])]
        # Their sets are read, so no other process may write to them from now on.
        runs = attempt(enter, begun)
        left = [index for index in pinned if index in runs or index not in begun]
        heads = attempt(lambda index: _heads_of(pinned[index], outs[index]), left)
        members = attempt(build, heads)
        if not members:
            return []
        # Before any folder is made.
        together = prepare([*members.values()], training)
        about["devices"] = together.sharing
        runs |= attempt(enter, [index for index in members if index not in runs])
        runs = attempt(keep, [index for index in members if index in runs])
        if not runs:
            return []
        if len(runs) < together.count:
            together = prepare([members[index] for index in runs], training)
        return fit(
            together,
            training,
            runs=list(runs.values()),
            loggers=[loggers[index] for index in runs] if loggers else (),
        )


def _check_together(experiments: ListLike[Experiment], outs: ListLike) -> None:
    if not experiments or len(experiments) != len(outs):
        got = f"{len(experiments)} experiments and {len(outs)} folders"
        raise ValueError(f"each experiment needs a folder, got {got}")
    if len({os.path.realpath(out) for out in outs}) < len(outs):
        raise ValueError("each experiment needs its own folder, got one folder twice")
    training = experiments[0].training
    for experiment in experiments:
        if experiment.training != training:
            got = f"{training} and {experiment.training}"
            raise ValueError(
                f"experiments that train together must share training=, got {got}"
            )


def _attempt(
    on_failure: OnFailure | None, step: Callable[[int], Made], indices: Iterable[int]
) -> dict[int, Made]:
    """The step's result for each index; failed ones are left out."""
    made: dict[int, Made] = {}
    for index in indices:
        try:
            made[index] = step(index)
        except ValueError as error:
            if on_failure is None:
                raise
            on_failure(index, error)
    return made


def _heads_of(experiment: Experiment, out: str | os.PathLike) -> dict[str, FoundHeads]:
    """The heads that a run began with, or that it will begin with."""
    kept = kept_heads(out, experiment.heads)
    return measured_heads(experiment.heads) if kept is None else kept


def _load(source: Source | None) -> jax.Array | None:
    """The data of a source; cached, so that members share the same array."""
    return None if source is None else jnp.asarray(source.load())


def _entered(
    stack: contextlib.ExitStack,
    opened: contextlib.AbstractContextManager[RunWriter],
    digest: str | None,
) -> RunWriter:
    # Release it at once if the data are not those that the run began with.
    with contextlib.ExitStack() as own:
        run = own.enter_context(opened)
        run.keep_data(digest)
        stack.enter_context(own.pop_all())
    return run


def _keep_sets(run: RunWriter, member: Member) -> None:
    """Writes the sets that were drawn: another version of JAX may draw others."""
    file = run.path / "eval_data.h5"
    if file.exists() or not member.evaluations:
        return
    if (run.path / "log.h5").exists():
        text = f"{file} is gone: this version of JAX draws its sets again"
        warnings.warn(text, stacklevel=2)
    with disk(run.path):
        save_batches(file, member.evaluations, run.owner(file))
