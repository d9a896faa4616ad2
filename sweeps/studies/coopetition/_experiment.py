"""A run of the coopetition study, and its experiment."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from icl import Experiment, Start
from icl.data import Source
from icl.edits.ranked import RankedHeads
from icl.models import Learned, Positions
from icl.presets import stand_in
from icl.presets.coopetition import (
    coopetition,
    coopetition_12_layers,
    mixed,
    only_ciwl,
    only_icl,
)
from icl.presets.transience import matched_sets
from icl.tasks.exemplar_label import Matched
from icl.training import Training
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every, Exactly


Sequences = Literal["main", "ciwl", "icl", "half", "most"]


@dataclasses.dataclass(frozen=True)
class CoopetitionRun:
    """How a run differs from the main one."""

    name: str
    sequences: int
    checkpoint_every: int | None = None
    """`None` keeps only the last."""
    evaluate_every: int = 100_000
    trained_on: Sequences = "main"
    graft: tuple[str, int] | None = None
    """A run, and how many sequences it had seen. Its layer 1 and all that follows
    replace this run's, and are not trained."""
    start: tuple[str, int] | None = None
    """A run, and how many sequences it had seen. This run starts from its weights."""
    classes: int = 12_800
    exemplars: int = 20
    deep: bool = False
    """Twelve layers and contexts of 8 pairs."""
    matched: bool = False
    """Within a sequence, a class is always shown as the same exemplar ("MQ")."""
    depth: int = 2
    mlp_ratio: float | None = None
    positions: Positions | None = None
    """`None` means learned positions."""
    edits: tuple[str, ...] = ()
    heads: tuple[str, int, tuple[int, ...]] | None = None
    """The heads `{previous}` that the edits name, in layer 0 of another run: its name,
    how many sequences it had seen, and the heads' ranks by attention to the previous
    token."""
    rate: float | None = None
    """The learning rate of a run with two pairs; `None` means the scale's."""
    init_seed: int = 5
    train_seed: int = 2
    eval_seed: int = 0


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all runs of a scale share."""

    runs: Callable[[], list[CoopetitionRun]]
    rate: float = 1e-5
    """The learning rate of runs with two pairs in context."""
    size: int | None = None
    """Sequences of an evaluation set; `None` means as published."""
    dim: int = 512
    """The number of features of the synthetic classes."""
    sets: tuple[str, ...] | None = None
    """The evaluation sets; `None` means all."""
    d_model: int = 64
    deep_layers: int = 12


def experiment_of(
    run: CoopetitionRun, setting: Setting, folder: Path, data: Source | None
) -> Experiment:
    """The experiment of a run; the runs it starts or grafts from are in `folder`."""
    data = data or stand_in(run.classes, run.exemplars, dim=setting.dim)
    base = _base(run, setting, data)
    batch_size = base.training.batch_size
    edits, start = run.edits, None
    if run.graft is not None:
        path, checkpoint = _place(run.graft, folder, batch_size)
        edits = (*edits, f"Graft({path!r}, from_=1, checkpoint={checkpoint})")
    if run.start is not None:
        start = Start(*_place(run.start, folder, batch_size))
    heads = {}
    if run.heads is not None:
        donor, at, ranks = run.heads
        path, checkpoint = _place((donor, at), folder, batch_size)
        heads["previous"] = RankedHeads(
            path, "previous_token", layer=0, ranks=ranks, checkpoint=checkpoint
        )
    keep = run.checkpoint_every
    return dataclasses.replace(
        base,
        training=Training(
            run.sequences,
            batch_size,
            evaluate_at=Every(run.evaluate_every),
            checkpoint_at=Every(keep) if keep else Exactly((run.sequences,)),
        ),
        edits=edits,
        heads=heads,
        start=start,
        init_seed=run.init_seed,
        train_seed=run.train_seed,
        eval_seed=run.eval_seed,
    )


def _base(run: CoopetitionRun, setting: Setting, data: Source) -> Experiment:
    """The task, the model and the evaluation sets."""
    size = {"classes": run.classes, "exemplars": run.exemplars}
    if run.deep:
        base = coopetition_12_layers(data, **size)
        model = dataclasses.replace(base.model, num_layers=setting.deep_layers)
    else:
        base = coopetition(data, **size)
        rate = run.rate or setting.rate
        base = dataclasses.replace(base, optimizer=Adam(Constant(rate)))
        model = dataclasses.replace(
            base.model,
            num_layers=run.depth,
            mlp_ratio=run.mlp_ratio,
            positions=run.positions or Learned(),
        )
    model = dataclasses.replace(model, d_model=setting.d_model)
    sets = {
        name: dataclasses.replace(each, size=setting.size or each.size)
        for name, each in base.evaluations.items()
        if setting.sets is None or name in setting.sets
    }
    task = base.task
    if run.matched:
        task = dataclasses.replace(task, exemplar_choice=Matched())
        sets = matched_sets(sets)
    base = dataclasses.replace(base, task=task, model=model, evaluations=sets)
    on = {
        "main": lambda same: same,
        "ciwl": only_ciwl,
        "icl": only_icl,
        "half": functools.partial(mixed, bursty=0.5),
        "most": functools.partial(mixed, bursty=0.9),
    }
    return on[run.trained_on](base)


def _place(donor: tuple[str, int], folder: Path, batch_size: int) -> tuple[str, int]:
    """A run's folder, and its checkpoint: the point, rounded up to a whole step."""
    name, sequences = donor
    return str(folder / name), -(-sequences // batch_size) * batch_size
