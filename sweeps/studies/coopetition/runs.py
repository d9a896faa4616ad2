"""The coopetition paper: Singh et al. 2025, "Strategy coopetition explains the
emergence and transience of in-context learning" (ICML; arXiv 2503.05631).

Which runs there are is from the sweeps in https://github.com/aadityasingh/icl-dynamics:
27 of the main text and 18 of the appendix; two on mixed data are ours. The runs there
that make evaluation sets have no counterpart: a set is a function of the evaluation
seed. What the other figures need (2, 3) is measured on checkpoints of these; 5 is a toy
model without a transformer.

`small` is what shows the effects in an hour: 6400 classes, a learning rate ten times
the paper's, a selection of the runs: 700 thousand steps, of which two cores make 200 a
second. With these settings the main run's transience is seen in 3.2·10⁶ sequences, and
layers grafted from it or from the run on CIWL end the plateau; of the restarts from
CIWL even the earlier one is too late for learning in context.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from icl import Experiment, RankedHeads, Start
from icl.data import Source
from icl.models import Learned, Positions, Rope, Sinusoidal
from icl.optimizers import Adam, Constant
from icl.presets import stand_in
from icl.presets.coopetition import (
    coopetition,
    coopetition_12_layers,
    mixed,
    only_ciwl,
    only_icl,
)
from icl.presets.transience import matched_sets
from icl.schedules import At, Every
from icl.tasks import Matched
from icl.train import Training

from ...study import StudyScale, Trial


M = 1_000_000

Sequences = Literal["main", "ciwl", "icl", "half", "most"]


@dataclasses.dataclass(frozen=True)
class CoopetitionRun:
    """How a run differs from the main one."""

    name: str
    sequences: int
    checkpoint_every: int | None = None
    """`None` keeps the last alone."""
    evaluate_every: int = 100_000
    trained_on: Sequences = "main"
    graft: tuple[str, int] | None = None
    """A run and how many sequences it had seen: its layer 1 and what follows replace
    this one's, and are not trained."""
    start: tuple[str, int] | None = None
    """A run and how many sequences it had seen: the weights at first."""
    classes: int = 12_800
    exemplars: int = 20
    deep: bool = False
    """Twelve layers and contexts of 8 pairs."""
    matched: bool = False
    """A class is shown as one exemplar in all of a sequence ("MQ")."""
    depth: int = 2
    mlp_ratio: float | None = None
    positions: Positions | None = None
    """`None` is learned ones."""
    edits: tuple[str, ...] = ()
    heads: tuple[int, tuple[int, ...]] | None = None
    """The heads `{previous}` that these name, in layer 0 of the main run: how many
    sequences it had seen, and their ranks by how much they attend to the previous
    token."""
    init_seed: int = 5
    train_seed: int = 2


def figures() -> list[CoopetitionRun]:
    """The runs of the main text, 27."""
    length, keep = 64 * M, 16 * M
    deep = CoopetitionRun("12-layers", 400 * M, 40 * M, 2 * M, deep=True)
    return [
        # 1b to 3, and what they are grafted and started from.
        CoopetitionRun("main", length, 50_000),
        CoopetitionRun("ciwl-only", length, 50_000, trained_on="ciwl"),
        # 4a. The paper's plateau lasts longer than this: it had 640 million.
        CoopetitionRun("icl-only", length, keep, trained_on="icl"),
        _graft("main", 20 * M, length, keep),
        # 4b: from inside of the window where it helps, its two ends, and outside.
        *(
            _graft("ciwl-only", at * M, length, keep)
            for at in (4, 8, 9.75, 9.8, 15, 20, 25, 31.5, 32, 48, 64)
        ),
        # 4c. The script's start at 12 million loads the checkpoint at 10; not here. It
        # counts on from the start, and so ends at 32 million more, as this does.
        *(_start(at * M, 32 * M, keep) for at in (4, 5, 6, 7, 8, 9, 10, 12, 16)),
        # 6.
        CoopetitionRun("matched", length, keep, matched=True),
        deep,
        dataclasses.replace(deep, name="12-layers-matched", matched=True),
    ]


def appendix() -> list[CoopetitionRun]:
    """The runs of the appendix, 18."""
    length, keep = 64 * M, 16 * M
    data = CoopetitionRun("data", 100 * M, 20 * M)
    mlp = CoopetitionRun("mlp", 320 * M, 80 * M, mlp_ratio=4.0)
    block = "Block(queries='label', distance=1, site='blocks.0.attn.scores')"
    zero = "Zero('blocks.0.attn.z', head={previous})"
    return [
        CoopetitionRun("main-320M", 320 * M, 80 * M),  # Figure 11.
        CoopetitionRun("init-6", length, keep, init_seed=6),
        CoopetitionRun("init-7", length, keep, init_seed=7),
        CoopetitionRun("train-3", length, keep, train_seed=3),
        CoopetitionRun("train-4", length, keep, train_seed=4),
        CoopetitionRun("init-6-train-3", length, keep, init_seed=6, train_seed=3),
        CoopetitionRun("rope", length, keep, positions=Rope(30.0)),
        CoopetitionRun("sinusoidal", length, keep, positions=Sinusoidal(30.0)),
        mlp,
        *(_sized(run, 12_800, 5) for run in (data, mlp)),
        *(_sized(run, 1600, 20) for run in (data, mlp)),
        *(_sized(run, 1600, 5) for run in (data, mlp)),
        # For CIWL a layer suffices, and so it does without learning in context.
        CoopetitionRun("1-layer", length, keep, depth=1),
        CoopetitionRun("no-previous-token-on-labels", length, keep, edits=(block,)),
        # Not a lottery ticket: learning in context emerges without the heads that do it
        # when they are there. They are those at its peak; in the paper's run the three
        # that attend to the previous token at all were 1, 4 and 7.
        CoopetitionRun(
            "without-previous-token-heads",
            length,
            keep,
            edits=(zero,),
            heads=(7_800_000, (0, 1, 2)),
        ),
    ]


def mixtures() -> list[CoopetitionRun]:
    """Bursty sequences with others among them, half or a tenth: two, of ours."""
    length, keep = 64 * M, 16 * M
    return [
        CoopetitionRun("mixed-50", length, keep, trained_on="half"),
        CoopetitionRun("mixed-90", length, keep, trained_on="most"),
    ]


def _sized(run: CoopetitionRun, classes: int, exemplars: int) -> CoopetitionRun:
    """The run on so many classes and exemplars of each."""
    name = f"{run.name}-{classes}x{exemplars}"
    return dataclasses.replace(run, name=name, classes=classes, exemplars=exemplars)


def _graft(donor: str, at: float, length: int, keep: int) -> CoopetitionRun:
    """Trained on ICL sequences, with layer 1 of another run after so many sequences."""
    name = f"graft-{donor.removesuffix('-only')}-{_short(at)}"
    return CoopetitionRun(name, length, keep, trained_on="icl", graft=(donor, int(at)))


def _start(at: float, length: int, keep: int) -> CoopetitionRun:
    """Trained as the main run, from weights of the CIWL-only run."""
    return CoopetitionRun(
        f"start-ciwl-{_short(at)}", length, keep, start=("ciwl-only", int(at))
    )


def _short(sequences: float) -> str:
    return f"{sequences / M:g}M" if sequences >= M / 10 else f"{sequences:g}"


def _small() -> list[CoopetitionRun]:
    length, part, keep = 3_200_000, 1_600_000, 160_000
    runs = [
        CoopetitionRun("main", length, keep),
        CoopetitionRun("init-6", length, keep, init_seed=6),
        CoopetitionRun("ciwl-only", length, keep, trained_on="ciwl"),
        CoopetitionRun("icl-only", part, keep, trained_on="icl"),
        _graft("main", length, part, keep),
        *(_graft("ciwl-only", at, part, keep) for at in (640_000, 2_400_000)),
        *(_start(at, part, keep) for at in (640_000, 1_600_000)),
        CoopetitionRun("matched", part, keep, matched=True),
        CoopetitionRun("mixed-50", part, keep, trained_on="half"),
    ]
    return [
        dataclasses.replace(run, classes=6400, evaluate_every=64_000) for run in runs
    ]


def _smoke() -> list[CoopetitionRun]:
    length, keep = 3200, 1600
    runs = [
        CoopetitionRun("main", length, keep),
        CoopetitionRun("init-6", length, keep, init_seed=6),
        CoopetitionRun("ciwl-only", length, keep, trained_on="ciwl"),
        CoopetitionRun("icl-only", length, keep, trained_on="icl"),
        *(_graft("ciwl-only", at, length, keep) for at in (keep, length)),
        *(_start(at, length, keep) for at in (keep, length)),
        # Of two layers, here.
        CoopetitionRun("12-layers-matched", length, keep, deep=True, matched=True),
    ]
    few = lambda run: dataclasses.replace(run, classes=32, exemplars=2)
    return [dataclasses.replace(few(run), evaluate_every=1600) for run in runs]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all runs of a scale share."""

    runs: Callable[[], list[CoopetitionRun]]
    rate: float = 1e-5
    """The learning rate of runs with two pairs in context."""
    size: int | None = None
    """Sequences of an evaluation set; `None` is as published."""
    dim: int = 512
    """Of the synthetic classes."""
    sets: tuple[str, ...] | None = None
    """The evaluation sets, if not all."""
    d_model: int = 64
    deep_layers: int = 12


SETTINGS: dict[StudyScale, Setting] = {
    "paper": Setting(lambda: [*figures(), *appendix(), *mixtures()]),
    "small": Setting(_small, rate=1e-4, size=1000),
    "smoke": Setting(
        _smoke,
        rate=1e-3,
        size=50,
        dim=32,
        sets=("flip", "ciwl"),
        d_model=16,
        deep_layers=2,
    ),
}


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`.

    Without data, a run has just its own number of synthetic classes. With them, each
    takes its number of theirs, and models have an output for all.
    """
    setting = SETTINGS[scale]
    return [
        Trial(run.name, _experiment(run, setting, folder, data))
        for run in setting.runs()
    ]


def _experiment(
    run: CoopetitionRun, setting: Setting, folder: Path, data: Source | None
) -> Experiment:
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
        at, ranks = run.heads
        path, checkpoint = _place(("main", at), folder, batch_size)
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
            checkpoint_at=Every(keep) if keep else At((run.sequences,)),
        ),
        edits=edits,
        heads=heads,
        start=start,
        init_seed=run.init_seed,
        train_seed=run.train_seed,
    )


def _base(run: CoopetitionRun, setting: Setting, data: Source) -> Experiment:
    """The task, the model and the evaluation sets."""
    size = {"classes": run.classes, "exemplars": run.exemplars}
    if run.deep:
        base = coopetition_12_layers(data, **size)
        model = dataclasses.replace(base.model, num_layers=setting.deep_layers)
    else:
        base = coopetition(data, **size)
        base = dataclasses.replace(base, optimizer=Adam(Constant(setting.rate)))
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
    """A run's folder, and its checkpoint at the end of the step of that point."""
    name, sequences = donor
    return str(folder / name), -(-sequences // batch_size) * batch_size
