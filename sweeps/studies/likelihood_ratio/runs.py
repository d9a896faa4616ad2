"""The runs of arXiv 2603.10573: both tasks, and the ablations of the first.

Three ablations that end at chance in the paper also run with three times the steps. If
a run is at chance, it may still be on its first plateau; the longer run tells that
apart from a model that cannot learn the task.

`small` has 4 components and two layers of 64, as in `icl.presets`; `paper` is as
published. There the tasks have three seeds, and the ablations one, as published.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from icl import Experiment
from icl.data import Source
from icl.models import NoPositions
from icl.models.encoder import InterleavedTokens, PointTokens
from icl.presets.likelihood_ratio import (
    shifted_mean,
    shifted_mean_published,
    variance,
    variance_published,
)
from icl.tasks.discrimination import (
    NoisyLabels,
    ShiftedMean,
    ShuffledLabels,
    ShuffledPairs,
)
from icl.training.schedules import Every

from ...study import StudyScale, Trial, with_seeds


SEEDS = (10, 11, 12, 13, 14)
"""The seeds at `small`. Before the claims were written, only seed 5 was seen."""
LONGER = 3
"""How many times more steps the longer runs have."""

_Change = Callable[[Experiment], Experiment]


def _task(**fields) -> _Change:
    """Another training task. The set `train` follows it."""
    return lambda base: dataclasses.replace(
        base, task=dataclasses.replace(base.task, **fields)
    )


def _model(**fields) -> _Change:
    return lambda base: dataclasses.replace(
        base, model=dataclasses.replace(base.model, **fields)
    )


def _freeze(*paths: str) -> _Change:
    return lambda base: dataclasses.replace(base, freeze=paths)


def _longer_context(base: Experiment) -> Experiment:
    task = base.task
    if not isinstance(task, ShiftedMean):
        raise TypeError(f"needs the task ShiftedMean, got {task}")
    return _task(context=2 * task.context)(base)


ABLATIONS: Mapping[str, _Change] = {
    "no-positions": _model(positions=NoPositions()),
    "frozen-positions": _freeze("positions"),
    "shuffled-pairs": _task(context_change=ShuffledPairs()),
    "longer-context": _longer_context,
    "interleaved": _model(tokens=InterleavedTokens()),
    "no-labels": _model(tokens=PointTokens()),
    "shuffled-labels": _task(context_change=ShuffledLabels()),
    "frozen-qk": _freeze("blocks.*.attn.query", "blocks.*.attn.key"),
    "frozen-attention": _freeze("blocks.*.attn"),
    "noise-0.1": _task(context_change=NoisyLabels(0.1)),
    "noise-0.2": _task(context_change=NoisyLabels(0.2)),
    "noise-0.4": _task(context_change=NoisyLabels(0.4)),
}
"""What each ablation changes, by the name of its runs."""

LONGER_RUNS = tuple(
    f"{name}-longer" for name in ("interleaved", "frozen-qk", "frozen-attention")
)
"""Runs with more steps of ablations that end at chance in the paper, where not symmetry
or wrong labels make chance the best."""


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    seeds = {"paper": SEEDS[:3], "small": SEEDS, "smoke": SEEDS[:1]}[scale]
    first, second = shifted_mean, variance
    if scale == "paper":
        first, second = shifted_mean_published, variance_published
    base, longer = _at(scale, first), _at(scale, first, LONGER)
    tasks = {"shifted-mean": base, "variance": _at(scale, second)}
    few = ("interleaved", "no-labels", "frozen-qk")  # Each is another program.
    names = few if scale == "smoke" else tuple(ABLATIONS)
    ablated = {name: _ablated(base, name) for name in names}
    few_longer = {
        name: _ablated(longer, name.removesuffix("-longer"))
        for name in LONGER_RUNS
        if name.removesuffix("-longer") in names
    }
    once = seeds[:1] if scale == "paper" else seeds
    return [*with_seeds(tasks, seeds), *with_seeds(ablated | few_longer, once)]


def _at(
    scale: StudyScale, preset: Callable[..., Experiment], times: int = 1
) -> Experiment:
    """A preset at a scale, with `times` as many steps.

    It is evaluated fifty times in its usual number of steps, to see when a plateau
    ends.
    """
    steps = 20 if scale == "smoke" else preset().training.num_steps
    base = preset(times * steps)
    batch = base.training.batch_size
    training = dataclasses.replace(
        base.training,
        evaluate_at=Every(steps * batch // (2 if scale == "smoke" else 50)),
        checkpoint_at=Every(times * steps * batch // 10),
    )
    base = dataclasses.replace(base, training=training)
    return _tiny(base) if scale == "smoke" else base


def _tiny(base: Experiment) -> Experiment:
    sets = base.evaluations.items()
    return dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, d_model=8, num_heads=2),
        evaluations={name: dataclasses.replace(s, size=20) for name, s in sets},
    )


def _ablated(base: Experiment, name: str) -> Experiment:
    """An ablation, evaluated on its own sequences and on unchanged contexts."""
    changed = ABLATIONS[name](base)
    train = base.evaluations["train"]
    sets = {"train": train}
    if changed.task != base.task:
        sets["unchanged"] = dataclasses.replace(train, task=base.task)
    return dataclasses.replace(changed, evaluations=sets)
