"""The transience paper: Singh et al. 2023, "The transient nature of emergent
in-context learning in transformers" (NeurIPS; arXiv 2311.08360).

Of its runs those on fixed features: of Omniglot's images (appendix B), and embeddings
of LLaMA's tokens in clusters (section 4.3). The main text's run learns the features of
images along with the rest, and is DeepMind's code.
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
from ._data import check_data, stand_in
from ._preset import preset


Sets = dict[str, EvaluationConfig]


@preset
def transience(
    data: Source = stand_in(12_800),  # noqa: B008
    *,
    classes: int = 12_800,
    exemplars: int = 20,
) -> Experiment:
    """Learning in context comes and goes (appendix B): 12 layers, 1.6·10⁹ sequences.

    12 800 or 1600 classes of 20 exemplars, whose labels are their own. The context has
    8 pairs: three of the query's class, three of one other, two more. MLPs of ratio 4,
    sinusoidal positions, Adam at 3e-4.

    **Arguments:**

    - `data`: Of so many classes and exemplars or more. The default is a synthetic
        stand-in for the features of Omniglot's images.
    - `classes`, `exemplars`: How many there are to learn.

    **Raises:** `ValueError` if the data does not suffice.
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
    data: Source = stand_in(1600, 10, dim=4096),  # noqa: B008
    *,
    classes: int = 1600,
    exemplars: int = 10,
) -> Experiment:
    """Classes that are clusters of LLaMA's token embeddings (section 4.3).

    1600 classes of 10 tokens or 3200 of 5, 64·10⁶ sequences; else as `transience`.

    **Arguments:**

    - `data`: Of so many classes and exemplars or more, as `icl data clusters` makes of
        a model's embeddings. The default is a synthetic stand-in.
    - `classes`, `exemplars`: How many there are to learn.

    **Raises:** `ValueError` if the data does not suffice.
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

    `train` is as in training, `burst_2` has two pairs of each of the two classes and
    four others; `icl` relabels the classes 0 and 1, `flip` exchanges their labels, with
    four pairs of each. Of the query's class there are none in `ciwl`, where its label
    is on some pair nonetheless, and in `iwl`. The public code's names are
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
    """Sets that tell solutions apart: `icl`, `flip`, `ciwl` and `iwl`.

    **Arguments:**

    - `size`: Sequences in each.
    - `support`: The context of those that have the query's class in it.
    """
    absent = Context(support.length, burstiness=0, no_support=True, unique_rest=True)
    return {
        "icl": _set(size, support, Relabel(2)),
        "flip": _set(size, support, FlippedLabels()),
        "ciwl": _set(size, absent, QueryLabelOnContext()),
        "iwl": _set(size, absent),
    }


def matched_sets(sets: Sets) -> Sets:
    """The same sets, and each with one exemplar of a class in all of a sequence."""
    matched = {
        f"matched_{name}": dataclasses.replace(each, exemplar_choice=Matched())
        for name, each in sets.items()
    }
    return {**sets, **matched}


def _set(size: int, context: Context, labels: Labels = ClassLabels()) -> EvaluationSet:  # noqa: B008
    # All of it in words: the same sets for runs that train on other sequences.
    return EvaluationSet(
        size=size, context=context, labels=labels, exemplar_choice=Free()
    )
