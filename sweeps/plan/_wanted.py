"""What a launch is asked for: the study's experiments, and the wanted ones."""

import dataclasses
import fnmatch
from collections.abc import Collection, Sequence
from typing import Any

from icl import Experiment
from icl.config import changed, with_fields
from icl.edits.grafts import last_checkpoint_at
from opto.hints import did_you_mean

from ..folder import Folder
from ..study import Trial
from ..text import some_of
from ._groups import by_path
from ._needs import needs, with_needed


def experiments_of(
    trials: Sequence[Trial], sets: Sequence[str], folder: Folder
) -> dict[str, Experiment]:
    """The trials' experiments with fields set, and absolute paths and checkpoints.

    **Raises:** `ValueError` for unknown fields or names of heads, and for missing runs
    or checkpoints.
    """
    plain = {trial.name: _with(trial, sets) for trial in trials}
    paths = by_path(plain, folder.path)

    def last(path: str) -> int:
        if path not in paths:
            return last_checkpoint_at(path)
        training = paths[path].training
        return max(training.sequences_of(training.checkpoint_at), default=-1)

    found = {}
    for name, experiment in plain.items():
        try:
            found[name] = experiment.pinned(last)
        except ValueError as error:
            wanted = f"{name} needs a missing checkpoint"
            raise ValueError(f"{wanted}: {error}") from None
    return found


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a launch is asked for."""

    experiments: dict[str, Experiment]
    """The experiments of all runs of the study."""
    needed: dict[str, tuple[str, ...]]
    """The runs that each run needs."""
    chosen: frozenset[str]
    """The wanted runs, and the runs that they need."""


def wanted(
    folder: Folder, experiments: dict[str, Experiment], only: Sequence[str]
) -> Wanted:
    """What a launch is asked for, checked; writes nothing.

    **Arguments:**

    - `only`: Patterns of the names of the wanted runs; none means all.

    **Raises:** `ValueError` if a run's folder holds another config, a needed run or
    checkpoint is missing, runs need each other, or no run is chosen.
    """
    needed = needs(experiments, folder.path)
    chosen = with_needed({*matching(only, experiments)}, needed)
    for name in chosen:
        check_same(folder, name, experiments[name])
    return Wanted(experiments, needed, frozenset(chosen))


def matching(only: Sequence[str], runs: Collection[str]) -> list[str]:
    """The runs that match one of the patterns, or all if there is no pattern.

    **Raises:** `ValueError` for a pattern that no run matches.
    """
    for pattern in only:
        if not fnmatch.filter(runs, pattern):
            hint = did_you_mean(pattern, runs, cutoff=0.3) or f"; runs: {some_of(runs)}"
            raise ValueError(f"--only: no run matches {pattern!r}{hint}")
    return [r for r in runs if not only or any(fnmatch.fnmatch(r, p) for p in only)]


def check_same(folder: Folder, name: str, experiment: Experiment) -> None:
    """Raises `ValueError` if a run's folder holds another config."""
    there = folder.config(name)
    if there is not None and (found := differs_from(there, experiment)):
        raise ValueError(f"{folder.run(name)} holds a run of another config: {found}")


def differs_from(there: dict[str, Any], experiment: Experiment) -> str:
    """How a stored config differs from an experiment; empty if it does not."""
    return "; ".join(changed(there, experiment)) if there else "it was not planned"


def _with(trial: Trial, sets: Sequence[str]) -> Experiment:
    try:
        experiment = with_fields(trial.experiment, sets)
        experiment.with_any_heads()  # Raises for unknown names of heads.
        return experiment
    except ValueError as error:
        raise ValueError(f"{trial.name}: {error}") from None
