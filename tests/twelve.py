"""A study of twelve tiny runs in three levels and five programs."""

import dataclasses

from icl import EvaluationSet, Experiment, Start, Training
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.tasks.exemplar_label import ExemplarLabel, Relabel, Split
from icl.training.schedules import Every
from sweeps import Trial


SIZES = {"smoke": 1280, "small": 12800, "paper": 128000}


def trials(scale, folder, data):
    total = SIZES[scale]
    base = Experiment(
        data=data or LowRankClasses(num_classes=12, num_exemplars=2, dim=8),
        task=ExemplarLabel(
            class_split=Split(train=8, test=4),
            exemplar_split=Split(train=1, val=1),
            labels=Relabel(num_labels=4),
        ),
        model=TransformerConfig(d_model=8, num_heads=2),
        training=Training(
            num_sequences=total,
            batch_size=16,
            evaluate_at=Every(total // 4),
            checkpoint_at=Every(total // 4),
        ),
        evaluations={"train": EvaluationSet(size=8)},
    )
    change = dataclasses.replace
    for seed in range(4):
        yield Trial(f"seed-{seed}", change(base, init_seed=seed))
    wide = TransformerConfig(d_model=16, num_heads=2)
    yield Trial("wide", change(base, model=wide))
    for seed in range(4):
        start = Start(str(folder / f"seed-{seed}"), total // 2)
        yield Trial(f"start-{seed}", change(base, start=start, train_seed=7))
    graft = f"Graft({str(folder / 'seed-0')!r}, until=0)"
    yield Trial("graft", change(base, edits=(graft,)))
    for seed in range(2):
        start = Start(str(folder / f"start-{seed}"))
        silent = f"Zero('blocks.1.attn.z', head={seed})"
        yield Trial(f"again-{seed}", change(base, start=start, edits=(silent,)))
