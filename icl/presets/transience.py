"""The transience paper: Singh et al. 2023, "The transient nature of emergent
in-context learning in transformers" (NeurIPS; arXiv 2311.08360).

These are its runs on fixed features: of Omniglot's images (appendix B), and of LLaMA's
token embeddings in clusters (section 4.3). The main text's run also learns the features
of images; that is DeepMind's code.
"""

import dataclasses

from ..data import Source
from ..experiments import Experiment
from ..models import Sinusoidal, TransformerConfig
from ..protocols import EvaluationConfig
from ..tasks.exemplar_label import (
    ClassLabels,
    Context,
    EvaluationSet,
    ExemplarLabel,
    FlippedLabels,
    Free,
    Labels,
    Matched,
    QueryLabelOnContext,
    Relabel,
    Split,
)
from ..training import Training
from ..training.optimizers import Adam, Constant
from ..training.schedules import Every
from ._data import check_data, clusters_stand_in, stand_in
from ._preset import preset


Sets = dict[str, EvaluationConfig]


@preset
def transience(
    data: Source = stand_in(12_800),  # noqa: B008
    *,
    classes: int = 12_800,
    exemplars: int = 20,
) -> Experiment:
    """In-context learning comes and goes (appendix B): 12 layers, 1.6·10⁹ sequences.

    12 800 or 1600 classes of 20 exemplars; each class has its own label. The context
    has 8 pairs: three of the query's class, three of one other class, and two more.
    MLPs of ratio 4, sinusoidal positions, Adam at 3e-4.

    **Arguments:**

    - `data`: Has at least this many classes and exemplars. The default is a synthetic
        stand-in for the features of Omniglot's images, rotated and mirrored.
    - `classes`, `exemplars`: The numbers of classes to learn, and of exemplars of
        each.

    **Raises:** `ValueError` if the data has too few of them.
    """
    check_data(data, "the run", classes, exemplars)
    return Experiment(
        data=data,
        task=ExemplarLabel(
            class_split=Split(train=classes),
            exemplar_split=Split(train=exemplars),
            context=Context(length=8, burstiness=3, distractor=True),
        ),
        model=TransformerConfig(
            num_layers=12, mlp_ratio=4.0, positions=Sinusoidal(theta=30.0)
        ),
        optimizer=Adam(Constant(3e-4)),
        training=Training(
            num_sequences=1_600_000_000,
            evaluate_at=Every(500_000),
            checkpoint_at=Every(40_000_000),
        ),
        evaluations=bursty_sets(),
        init_seed=6,
        train_seed=2,
    )


@preset
def transience_clusters(
    data: Source = clusters_stand_in(1600, 10, dim=4096),  # noqa: B008
    *,
    classes: int = 1600,
    exemplars: int = 10,
) -> Experiment:
    """Classes that are clusters of LLaMA's token embeddings (section 4.3).

    1600 classes of 10 tokens or 3200 of 5, 64·10⁶ sequences; otherwise as `transience`.

    **Arguments:**

    - `data`: Has at least this many classes and exemplars; `icl data clusters` makes it
        from a model's embeddings. The default is a synthetic stand-in.
    - `classes`, `exemplars`: The numbers of classes to learn, and of exemplars of
        each.

    **Raises:** `ValueError` if the data has too few of them.
    """
    return dataclasses.replace(
        transience(data, classes=classes, exemplars=exemplars),
        training=Training(
            num_sequences=64_000_000,
            evaluate_at=Every(100_000),
            checkpoint_at=Every(10_000_000),
        ),
        init_seed=5,
    )


def bursty_sets(size: int = 1000) -> Sets:
    """The evaluation sets of runs with contexts of 8 pairs.

    `train` is as in training. `burst_2` has two pairs of each of the two classes and
    four others. `icl` calls the classes 0 and 1, and `flip` exchanges their labels;
    both have four pairs of each class. In `ciwl` and `iwl` the query's class is not in
    the context, but in `ciwl` its label is on some pair. The public code's names are
    `b3_train_eval`, `b2_train_eval`, `icl` (`fsl_train`), `flip_icl` (`flip`),
    `iwl_copy_avail` and `iwl` (`mem_train_unique`).
    """
    bursty = lambda times: Context(length=8, burstiness=times, distractor=True)
    return {
        "train": _set(size, bursty(3)),
        "burst_2": _set(size, bursty(2)),
        **solution_sets(size, bursty(4)),
    }


def solution_sets(size: int, support: Context) -> Sets:
    """Sets that distinguish solutions: `icl`, `flip`, `ciwl` and `iwl`.

    **Arguments:**

    - `size`: Sequences in each set.
    - `support`: The context of the sets that include the query's class.
    """
    absent = Context(support.length, burstiness=0, no_support=True, unique_rest=True)
    return {
        "icl": _set(size, support, Relabel(2)),
        "flip": _set(size, support, FlippedLabels()),
        "ciwl": _set(size, absent, QueryLabelOnContext()),
        "iwl": _set(size, absent),
    }


def matched_sets(sets: Sets) -> Sets:
    """These sets, and each again with a single exemplar per class in a sequence."""
    matched = {
        f"matched_{name}": dataclasses.replace(each, exemplar_choice=Matched())
        for name, each in sets.items()
    }
    return {**sets, **matched}


def _set(size: int, context: Context, labels: Labels = ClassLabels()) -> EvaluationSet:  # noqa: B008
    # Nothing is left to the task, so runs on other sequences get the same sets.
    return EvaluationSet(
        size=size, context=context, labels=labels, exemplar_choice=Free()
    )
