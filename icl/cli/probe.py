"""The model that a command works on: a run, edits, and the model's sites."""

import opto

from ..batches import example_of
from ..edits.grafts import check_grafts, read_edits
from ..experiments import load, Trained
from .options import ProbeOptions, RunOptions


def edits_in_force(
    options: RunOptions, trained: Trained
) -> tuple[opto.toolkit.AbstractEdit, ...]:
    """The edits to apply: those of training come first.

    **Raises:** `ValueError` for a text that is no edit, and for a graft of a model
    that does not take the task's examples.
    """
    own = trained.edits if options.training_edits else ()
    edits = read_edits(options.edit)
    check_grafts(edits, trained.task)
    return (*own, *edits)


def opened(
    options: ProbeOptions,
) -> tuple[Trained, tuple[opto.toolkit.AbstractEdit, ...], opto.toolkit.Sites]:
    """The run, the edits to apply, and the sites of its model.

    **Raises:** `ValueError` for a run or a checkpoint that does not exist, and for an
    edit that does not fit.
    """
    trained = load(options.run, options.checkpoint)
    edits = edits_in_force(options, trained)
    task, example = trained.task, example_of(trained.task)
    return trained, edits, opto.sites(task.forward, trained.model, example)
