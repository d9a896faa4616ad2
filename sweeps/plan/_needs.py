"""Which run needs which, from the folders that experiments name."""

import os
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from icl import Experiment, Run, Training


def needs(
    experiments: Mapping[str, Experiment], folder: Path
) -> dict[str, tuple[str, ...]]:
    """For each run, the names of the runs whose checkpoints it reads.

    Runs outside `folder` must exist already.

    **Raises:** `ValueError` for a needed run or checkpoint that does not exist and will
    not be made, and for runs that need each other.
    """
    found = {
        name: _needs_of(name, experiment, experiments, folder)
        for name, experiment in experiments.items()
    }
    levels(found)  # Raises for a cycle.
    return found


def levels(needs: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """For each run, how many runs must be trained before it, one after the other.

    **Raises:** `ValueError` for runs that need each other.
    """
    try:
        order = [*TopologicalSorter(needs).static_order()]
    except CycleError as error:
        circle = " needs ".join(reversed(error.args[1]))
        raise ValueError(f"runs need each other: {circle}") from None
    found: dict[str, int] = {}
    for name in order:
        found[name] = 1 + max((found[need] for need in needs[name]), default=-1)
    return found


def with_needed(chosen: set[str], needs: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The chosen runs and all runs that they need, directly or not."""
    more = {need for name in chosen for need in needs[name]} - chosen
    return with_needed(chosen | more, needs) if more else chosen


def _needs_of(
    name: str,
    experiment: Experiment,
    experiments: Mapping[str, Experiment],
    folder: Path,
) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for path, checkpoint in experiment.sources():
        place = Path(os.path.abspath(path))
        if not place.is_relative_to(folder):
            _check_there(name, path, checkpoint)
            continue
        inside = str(place.relative_to(folder))
        if inside not in experiments:
            raise ValueError(f"{name} needs {inside}, which is not a run of the study")
        _check_kept(name, inside, experiments[inside].training, checkpoint)
        found[inside] = None
    return tuple(found)


def _check_there(name: str, path: str, checkpoint: int) -> None:
    if Path(path).is_file():  # A checkpoint file of icl-dynamics.
        return
    try:
        Run(path).find(checkpoint)
    except ValueError as error:
        raise ValueError(f"{name} needs a missing checkpoint: {error}") from None


def _check_kept(name: str, need: str, training: Training, checkpoint: int) -> None:
    kept = training.sequences_of(training.checkpoint_at)
    if not kept:
        raise ValueError(f"{name} needs a checkpoint of {need}, which keeps none")
    if checkpoint not in (-1, *kept):
        nearest = min(kept, key=lambda n: abs(n - checkpoint))
        raise ValueError(
            f"{name} needs the checkpoint {checkpoint} of {need}, which keeps none "
            f"there: the nearest is {nearest}"
        )
