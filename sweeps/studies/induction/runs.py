"""The induction-head paper: Singh et al. 2024, "What needs to go right for an
induction head?" (ICML; arXiv 2404.07129).

The list of runs is from the scripts in https://github.com/aadityasingh/icl-dynamics
that made the figures: 32 for the main text and 31 for the appendix. Figure A18 has two
more seeds, and so has this study. The other figures (3b, 4a, A10 to A14, A16) are
measured on checkpoints of these runs; 5a and A9 are a toy model without a transformer.

`small` has all runs at their published lengths, evaluated less often: 1.6 million
steps. Two cores make 900 (one run) to 2100 (several together) steps a second. `smoke`
has some runs of each kind. The study's classes are synthetic: 300, with 5 exemplars
each. Heads are measured on the main run, so most runs wait for it.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from icl import Experiment
from icl.config import of_kind
from icl.data import LowRankClasses, Source
from icl.presets import check_data
from icl.presets.induction import induction
from icl.tasks.exemplar_label import ExemplarLabel, Relabel, Split
from icl.training import Training
from icl.training.schedules import Every, Exactly

from ...study import StudyScale, Trial
from .edits import ALONE, but, CLAMPS, heads_of, match, NUM_HEADS, previous, zero


SEED = 5
# Pairs of labels for training and held out, by the number of labels.
LABEL_PAIRS = {5: (8, 2), 10: (36, 9), 15: (84, 21)}
STRENGTHS = (*(s / 100 for s in range(100, 45, -5)), 0.4, 0.3, 0.2, 0.1, 0.0)


@dataclasses.dataclass(frozen=True)
class InductionRun:
    """How a run differs from the main one."""

    name: str
    edits: tuple[str, ...] = ()
    """The heads that they name are measured on another run, at its end."""
    heads_of: str = "main"
    """The run that the heads are measured on."""
    sequences: int = 1_000_000
    evaluate_every: int = 5000
    checkpoint_every: int | None = None
    """`None` keeps only the last."""
    init_seed: int = SEED
    classes: int = 50
    labels: int = 5
    graft: str | None = None
    """A run whose embedding and layer 0 at its end replace this run's; they are not
    trained."""


def figures() -> Iterator[InductionRun]:
    """The runs of the main text, 32."""
    # 3a, and from its checkpoints 3b and 4a.
    yield InductionRun("main", checkpoint_every=1000)
    # 4b: one head of layer 1 throughout training.
    for head in range(NUM_HEADS):
        yield InductionRun(f"only-head-{head}", (zero(f"{[*but(head)]}"),))
    # 5b; the checkpoints of the first are for A10.
    for name, edits in CLAMPS.items():
        every = 1000 if name == "none" else None
        yield InductionRun(
            f"clamp-{name}",
            edits,
            sequences=600_000,
            evaluate_every=1000,
            checkpoint_every=every,
        )
    # 6: more classes or labels, and which part of the circuit they slow down. With
    # layer 0 and copying clamped, the paper's part B is left to learn; with the match
    # clamped, part C; with only layer 0 clamped, both.
    yield InductionRun("long", (ALONE,), sequences=2_000_000)
    for scaled in (
        InductionRun("classes-100", classes=100),
        InductionRun("classes-200", classes=200),
        InductionRun("labels-10", labels=10),
        InductionRun("labels-15", labels=15),
    ):
        yield dataclasses.replace(
            scaled, name=f"{scaled.name}-long", edits=(ALONE,), sequences=2_000_000
        )
        for name in ("layer-0-copy", "match", "layer-0"):
            yield dataclasses.replace(
                scaled,
                name=f"{scaled.name}-clamp-{name}",
                edits=CLAMPS[name],
                sequences=300_000,
                evaluate_every=1000,
            )


def appendix() -> Iterator[InductionRun]:
    """The runs of the appendix, 31, and two more seeds."""
    # A7: layer 0 from the end of runs of three seeds. The scripts look for a file that
    # they never write (001000000.eqx); they mean the last checkpoint.
    for seed in (6, 7):
        yield InductionRun(f"seed-{seed}", init_seed=seed)
    for donor in ("main", "seed-6", "seed-7"):
        yield InductionRun(
            f"graft-{donor}", sequences=800_000, evaluate_every=1000, graft=donor
        )
    # A8: other heads clamped to the previous token.
    for name, heads in {
        "other": "{other}",
        "several": "{several}",
        "all": f"{[*range(NUM_HEADS)]}",
    }.items():
        edits = (ALONE, previous(heads))
        yield InductionRun(f"clamp-previous-token-{name}", edits, sequences=800_000)
    # A15: attention between the right label and the wrong one, with all heads of
    # layer 1.
    for strength in STRENGTHS:
        yield InductionRun(
            f"match-{strength:.2f}", (match(strength),), sequences=600_000
        )
    # A17: the induction head and one more, by their ranks.
    for rank in but(0):
        yield InductionRun(f"heads-0-{rank}", (zero(f"{{all_but_0_{rank}}}"),))
    # A18, beside seeds 5 to 7; not in the scripts.
    for seed in (8, 9):
        yield InductionRun(f"seed-{seed}", init_seed=seed)


def trials(scale: StudyScale, folder: Path, data: Source | None) -> list[Trial]:
    """The runs of the study; see `sweeps.study.StudyModule`."""
    runs = [*figures(), *appendix()]
    if scale == "smoke":
        runs = [run for run in runs if run.name in SMOKE]
    return trials_of(runs, scale, folder, data)


def trials_of(
    runs: Sequence[InductionRun], scale: StudyScale, folder: Path, data: Source | None
) -> list[Trial]:
    """The trials of these runs, which may refer only to each other."""
    dim = 32 if scale == "smoke" else 512
    base = _base(scale, data or LowRankClasses(300, num_exemplars=5, dim=dim))
    by_name = {run.name: run for run in runs}
    return [
        Trial(run.name, _experiment(base, run, scale, folder, by_name)) for run in runs
    ]


# Only eight programs, as compiling takes longest.
SMOKE = {
    *("main", "seed-6", "seed-7", "clamp-none"),
    *(f"only-head-{head}" for head in range(NUM_HEADS)),
    *("clamp-previous-token", "clamp-previous-token-other", "clamp-layer-0-copy"),
    *("labels-10-clamp-match", "match-1.00", "match-0.50", "graft-main"),
    "graft-seed-6",
}


def _base(scale: StudyScale, data: Source) -> Experiment:
    count = check_data(data, "the study", 300, 5)
    base = induction(data)
    # The same 100 classes are for testing, however many are for training.
    split = Split(train=50, val=count - 150, test=100)
    task = dataclasses.replace(
        base.task, class_split=split, exemplar_split=Split(train=1, val=4)
    )
    size = {"smoke": 50, "small": 500, "paper": 1000}[scale]
    sets = {
        name: dataclasses.replace(each, size=size)
        for name, each in base.evaluations.items()
    }
    model = base.model
    if scale == "smoke":
        model = dataclasses.replace(model, d_model=16)
        sets = {name: sets[name] for name in ("train", "heldout_labels")}
    return dataclasses.replace(base, task=task, evaluations=sets, model=model)


def _experiment(
    base: Experiment,
    run: InductionRun,
    scale: StudyScale,
    folder: Path,
    by_name: dict[str, InductionRun],
) -> Experiment:
    split = of_kind(base.task, ExemplarLabel, "the study").class_split
    val = split.val + split.train - run.classes
    train, held_out = LABEL_PAIRS[run.labels]
    task = dataclasses.replace(
        base.task,
        class_split=dataclasses.replace(split, train=run.classes, val=val),
        labels=Relabel(run.labels, Split(train=train, val=held_out)),
    )
    edits = run.edits
    if run.graft is not None:
        last = _training(by_name[run.graft], scale).num_sequences
        path = str(folder / run.graft)
        edits = (*edits, f"Graft({path!r}, until=0, checkpoint={last})")
    return dataclasses.replace(
        base,
        task=task,
        edits=edits,
        heads=heads_of(folder / run.heads_of, edits),
        training=_training(run, scale),
        init_seed=run.init_seed,
    )


def _training(run: InductionRun, scale: StudyScale) -> Training:
    if scale == "smoke":
        # All runs have one length, so that more of them train together.
        return Training(3200, evaluate_at=Every(1600), checkpoint_at=Exactly((3200,)))
    look, keep = run.evaluate_every, run.checkpoint_every
    if scale == "small":
        look, keep = max(2000, look), keep and max(10_000, keep)
    return Training(
        run.sequences,
        evaluate_at=Every(look),
        checkpoint_at=Every(keep) if keep else Exactly((run.sequences,)),
    )
