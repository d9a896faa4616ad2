"""What `icl ablate` and `icl patch` share: a model under edits, and its sites."""

import dataclasses
from pathlib import Path

import equinox as eqx

import opto

from ..batches import example_of
from ..experiments import load, Trained
from .options import SetOptions


@dataclasses.dataclass(frozen=True)
class ProbeOptions(SetOptions):
    """Which model, under which edits, on which sequences, and where results go."""

    out: Path | None = None
    """The folder of the results, made if need be; the default is one in the run's."""


def opened(
    options: ProbeOptions,
) -> tuple[Trained, tuple[opto.AbstractEdit, ...], opto.Sites]:
    """The run, the edits in force, and the sites of its model.

    **Raises:** `ValueError` for a run, a checkpoint or an edit that cannot be.
    """
    trained = load(options.run, options.checkpoint)
    edits = options.in_force(trained)
    task, example = trained.task, example_of(trained.task)
    # Checks the edits without a computation.
    forward = opto.lift(task.forward)
    eqx.filter_eval_shape(forward, trained.model, example, edits=edits)
    return trained, edits, opto.sites(task.forward, trained.model, example)
