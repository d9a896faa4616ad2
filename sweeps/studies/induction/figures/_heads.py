"""What heads do: figures of Singh et al. 2024, "What needs to go right for an induction
head?" (ICML; arXiv 2404.07129), that ablate heads of trained models.

Targets are from the paper's text, for one seed on features of Omniglot. Heads are
compared by their ranks.
"""

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

import icl
from icl import measures, plots

from ....figures import (
    ACCURACY,
    ATTENTION,
    by_seed,
    BySeed,
    COUNT,
    dotted,
    Exceeds,
    Figure,
    Measured,
    NATS,
    Row,
    rows_of,
    Runs,
    Times,
    Within,
)
from .. import analysis
from ..edits import NUM_HEADS
from ._common import CLAMPS


PAPER = "Singh et al. 2024, arXiv 2404.07129"
_ORDINALS = ("1st", "2nd", "3rd", *(f"{k}th" for k in range(4, NUM_HEADS + 1)))


def rank(k: int) -> str:
    """`1st head` for 0."""
    return f"{_ORDINALS[k]} head"


def _strengths(runs: Runs) -> Measured:
    """Strengths over training on a part of the sequences; at the end, on all."""
    asked = {"strength": measures.induction_strength(1)}
    over_training, at_end, sequences = [], [], np.empty(0)
    for folder in runs.folders["main"]:
        trained = icl.load(folder)
        key = jax.random.key(0)
        part = icl.dense_set(trained.task, max_class_pairs=50, key=key)
        found = icl.replay(trained, asked, data=part)
        every = icl.dense_set(trained.task)
        last = icl.replay(trained, asked, data=every, checkpoints=[-1])
        # The strongest first, at the end.
        order = np.argsort(-last["strength"][0])
        over_training.append(found["strength"][:, order])
        at_end.append(last["strength"][0, order])
        sequences = found.sequences
    ranked = np.stack(at_end, 1)
    values = {rank(k): each for k, each in enumerate(ranked)}
    values["heads above 0.4"] = (ranked > 0.4).sum(0).astype(float)
    several = np.stack(over_training, -1)
    names = np.repeat([rank(k) for k in range(len(ranked))], several.shape[-1])
    figure = plots.traces(
        sequences,
        several.reshape(len(sequences), -1),
        groups=names,
        label="induction strength",
        by="head of layer 1",
        trace="seed",
    )
    return Measured(values, figure)


def _alone(runs: Runs) -> Measured:
    """The model with all heads, without each one, with one, with the strongest few."""
    return _against(by_seed(runs.folders["main"], _of_heads), _ACCURACIES)


def _of_heads(folder: Path) -> dict[str, float]:
    trained = icl.load(folder)
    table = analysis.head_table(trained, data=icl.dense_set(trained.task))
    alone = table.alone["accuracy"][table.order]
    return {
        "all heads": table.whole["accuracy"],
        "without the one missed most": table.without["accuracy"].min(),
        **{f"{rank(k)} alone": x for k, x in enumerate(alone)},
        **{_strongest(k): x for k, x in enumerate(table.added["loss"][:4])},
    }


def _strongest(k: int) -> str:
    return f"loss with the strongest {k + 1}" if k else "loss with the strongest"


_ACCURACIES = {
    "all heads": 0.99999,
    "without the one missed most": np.nan,
    **{
        f"{rank(k)} alone": accuracy
        for k, accuracy in enumerate(
            (0.980, 0.765, 0.752, 0.588, 0.646, 0.403, 0.428, 0.292)
        )
    },
}
_LOSSES = {_strongest(k): loss for k, loss in enumerate((0.117, 0.044, 0.010, 0.005))}


def _paths(runs: Runs) -> Measured:
    return _against(by_seed(runs.folders["main"], _of_paths), _PATHS)


def _of_paths(folder: Path) -> dict[str, float]:
    trained = icl.load(folder)
    every = icl.dense_set(trained.task)
    previous = analysis.previous_token_heads(trained, data=every)
    others = [head for head in range(NUM_HEADS) if head not in previous]
    sets = {"previous-token heads": previous, "the others": others}
    if not others:
        raise ValueError(f"{folder}: all heads of layer 0 attend to previous tokens")
    ablated = analysis.path_ablations(trained, sets, data=every)
    pairs = analysis.path_pairs(trained)
    best = analysis.head_table(trained).best
    found = {}
    for path in (analysis.VALUES, analysis.KEYS):
        for k, name in enumerate(sets):
            found[f"{name}, missed through {path}"] = ablated.metric[path][k]
        found[f"best pair through {path}"] = pairs.metric[path][best].max()
    return found


_PATHS = {
    "previous-token heads, missed through values": 0.9985,
    "previous-token heads, missed through keys and queries": 0.699,
    "the others, missed through values": 0.343,
    "the others, missed through keys and queries": 0.993,
    "best pair through values": 0.824,
    "best pair through keys and queries": 0.914,
}


def _against(values: BySeed, targets: Mapping[str, float]) -> Measured:
    """Accuracies beside their targets, as dots."""
    shown = {row: values[row] for row in targets}
    known = rows_of(ACCURACY, dict(targets))
    return Measured(values, dotted(shown, known, "accuracy", known="paper (one seed)"))


FIGURES = (
    Figure(
        "induction/3b",
        "the induction strength of each head: there are several induction heads",
        f"{PAPER}, figure 3b",
        cost="12 min",
        about="induction strength at the end, over all training sequences",
        runs={"main": "seed-{seed}"},
        measure=_strengths,
        rows={
            **rows_of(
                ATTENTION,
                {
                    rank(k): strength
                    for k, strength in enumerate(
                        (0.845, 0.736, 0.708, 0.570, 0.553, 0.418, 0.289, 0.104)
                    )
                },
            ),
            "heads above 0.4": Row(6, COUNT),
        },
        claims=(Within("1st head", low=0.7), Within("heads above 0.4", low=2)),
        **CLAMPS,
    ),
    Figure(
        "induction/4a",
        "heads of layer 1 add up: none is needed, and one alone does much of the task",
        f"{PAPER}, figures 4a, A13, A14, table 2",
        cost="15 min",
        about="accuracy and loss (nats) at the end, over all training sequences",
        runs={"main": "seed-{seed}"},
        measure=_alone,
        rows={**rows_of(ACCURACY, _ACCURACIES), **rows_of(NATS, _LOSSES)},
        claims=(
            Within("without the one missed most", low=0.95),
            Within("1st head alone", low=0.9),
            Exceeds("1st head alone", "2nd head alone", by=0.05),
            # Heads add up: the loss with four is a tenth of the loss with one.
            Times(_strongest(0), _strongest(3), 10),
        ),
        **CLAMPS,
    ),
    Figure(
        "induction/table-1",
        "previous-token heads act through layer 1's keys, the others through values",
        f"{PAPER}, table 1 and figure A11",
        cost="15 min",
        about="accuracy at the end, without heads of layer 0, or with only one pair",
        runs={"main": "seed-{seed}"},
        measure=_paths,
        rows=rows_of(ACCURACY, _PATHS),
        claims=(
            Exceeds(
                "previous-token heads, missed through values",
                "previous-token heads, missed through keys and queries",
                by=0.1,
            ),
            Exceeds(
                "the others, missed through keys and queries",
                "the others, missed through values",
                by=0.1,
            ),
        ),
        **CLAMPS,
    ),
)
