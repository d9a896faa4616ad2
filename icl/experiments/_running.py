"""Training experiments into run folders, one at a time or together in one program."""

import contextlib
import dataclasses
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence as ListLike
from typing import TypeVar

import jax.numpy as jnp

from ..batches import example_of, first_of, load_batches, save_batches
from ..checks import instance
from ..data import digest
from ..edits.ranked import find_heads, FoundHeads, keep_heads, kept_heads
from ..runs import disk, is_run, open_run, Run, RunWriter
from ..training import check_members, devices_of, fit, Member, Result
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

    - `out`: The folder; `icl.runs.open_run` says when it is refused.
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

    - `outs`: A run folder for each; `icl.runs.open_run` says when one is refused.
    - `resume`: Continue the runs in the folders.
    - `loggers`: One for each experiment; each gets the numbers of its run.
    - `on_failure`: Called with the index of an experiment that cannot be built or whose
        folder is refused, and with the reason. The other experiments continue, and only
        their results are returned. By default the first failure ends all.

    **Raises:** As `run_experiment`, and `ValueError` if the experiments cannot share a
    program.
    """
    experiments, outs, loggers = list(experiments), list(outs), list(loggers)
    _check_together(experiments, outs)
    attempt = functools.partial(_attempt, on_failure)
    # Once: a source run may get more checkpoints meanwhile.
    pinned = attempt(Experiment.pinned, experiments)
    heads = attempt(_heads_of, {k: (e, outs[k]) for k, e in pinned.items()})
    built = {k: (pinned[k], found, outs[k]) for k, found in heads.items()}
    members = attempt(_builder(), built)
    if not members:
        return []
    check_members(list(members.values()))  # Before any folder is made.
    about = {"devices": devices_of([*members.values()], experiments[0].training)}
    with contextlib.ExitStack() as stack:
        hashed = functools.cache(digest)

        def enter(index: int) -> RunWriter:
            experiment = pinned[index]
            if not is_run(outs[index]):  # An older run may have such a set.
                check_not_dense(experiment.evaluations)
            opened = open_run(outs[index], experiment, resume=resume, about=about)
            data = experiment.data
            run = _entered(stack, opened, data and hashed(data))
            keep_heads(run.path, heads[index])
            return run

        runs = attempt(enter, {index: index for index in members})
        if not runs:
            return []
        return fit(
            [_with_kept_sets(members[index], run) for index, run in runs.items()],
            experiments[0].training,
            runs=list(runs.values()),
            loggers=[loggers[index] for index in runs] if loggers else (),
        )


def _check_together(experiments: ListLike[Experiment], outs: ListLike) -> None:
    if not experiments or len(experiments) != len(outs):
        got = f"{len(experiments)} experiments and {len(outs)} folders"
        raise ValueError(f"each experiment needs a folder, got {got}")
    if len({os.path.realpath(out) for out in outs}) < len(outs):
        raise ValueError("each experiment needs its own folder, got one folder twice")
    for experiment in experiments:
        instance("each of experiments", experiment, Experiment)
    training = experiments[0].training
    for experiment in experiments:
        if experiment.training != training:
            got = f"{training} and {experiment.training}"
            raise ValueError(
                f"experiments that train together must share training=, got {got}"
            )


def _attempt(
    on_failure: OnFailure | None,
    step: Callable[..., Made],
    items: ListLike | Mapping[int, object],
) -> dict[int, Made]:
    """The step's result for each item, by index; failed items are left out."""
    made: dict[int, Made] = {}
    pairs = items.items() if isinstance(items, Mapping) else enumerate(items)
    for index, item in pairs:
        try:
            made[index] = step(item)
        except ValueError as error:
            if on_failure is None:
                raise
            on_failure(index, error)
    return made


def _heads_of(item: tuple[Experiment, str | os.PathLike]) -> dict[str, FoundHeads]:
    """The heads that a run began with, or that it will begin with."""
    experiment, out = item
    kept = kept_heads(out, experiment.heads)
    return find_heads(experiment.heads) if kept is None else kept


def _builder() -> Callable[..., Member]:
    """Builds members; the same data gives the same array, which members share."""
    load = functools.cache(
        lambda source: None if source is None else jnp.asarray(source.load())
    )

    def build(
        item: tuple[Experiment, dict[str, FoundHeads], str | os.PathLike],
    ) -> Member:
        experiment, heads, out = item
        run = Run(out) if is_run(out) else None
        return experiment.member(load(experiment.data), heads, run)

    return build


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


def _with_kept_sets(member: Member, run: RunWriter) -> Member:
    """The member with the run's own sets: another version of JAX may draw others."""
    file = run.path / "eval_data.h5"
    if file.exists():
        own = {name: first_of(batch) for name, batch in member.evaluations.items()}
        example, owner = example_of(member.task), run.owner(file)
        sets = load_batches(file, example, owner=owner, examples=own)
        return dataclasses.replace(member, evaluations=sets)
    if member.evaluations:
        if (run.path / "log.h5").exists():
            text = f"{file} is gone: this version of JAX draws its sets again"
            warnings.warn(text, stacklevel=2)
        with disk(run.path):
            save_batches(file, member.evaluations, run.owner(file))
    return member
