"""The coopetition paper: Singh et al. 2025, "Strategy coopetition explains the
emergence and transience of in-context learning" (ICML; arXiv 2503.05631)."""

import dataclasses

from ..config import of_kind
from ..data import Source
from ..experiments import Experiment
from ..models import Learned, TransformerConfig
from ..tasks.exemplar_label import (
    Context,
    ExemplarLabel,
    Mixture,
    QueryLabelOnContext,
    Relabel,
    Split,
)
from ..training import Training
from ..training.optimizers import Adam, Constant
from ..training.schedules import Every
from ._data import check_data, stand_in
from ._preset import preset
from .transience import Sets, solution_sets, transience


_OMNIGLOT = stand_in(12_800)


@preset
def coopetition(
    data: Source = _OMNIGLOT, *, classes: int = 12_800, exemplars: int = 20
) -> Experiment:
    """The main run (figure 1b): in-context learning emerges and disappears again.

    12 800 classes of 20 exemplars; each class has its own label. Two context pairs, one
    of which is of the query's class. Two attention-only layers with learned positions,
    Adam at 1e-5, 64·10⁶ sequences.

    **Arguments:**

    - `data`: Has at least this many classes and exemplars. The default is a synthetic
        stand-in for the features of Omniglot's images, rotated and mirrored.
    - `classes`, `exemplars`: The numbers of classes to learn, and of exemplars of
        each: the first in the data.

    **Raises:** `ValueError` if the data has too few of them.
    """
    check_data(data, "the run", classes, exemplars)
    return Experiment(
        data=data,
        task=ExemplarLabel(
            class_split=Split(train=classes, seed=None),
            exemplar_split=Split(train=exemplars, seed=None),
        ),
        model=TransformerConfig(positions=Learned()),
        optimizer=Adam(Constant(1e-5)),
        training=Training(
            num_sequences=64_000_000,
            evaluate_at=Every(100_000),
            checkpoint_at=Every(50_000),
        ),
        evaluations=pair_sets(classes, exemplars),
        init_seed=5,
        train_seed=2,
    )


@preset
def coopetition_ciwl(data: Source = _OMNIGLOT) -> Experiment:
    """Trained only on CIWL sequences: the query's class is not in the context, but its
    label is, on some pair. Otherwise as `coopetition`."""
    return only_ciwl(coopetition(data))


@preset
def coopetition_icl(data: Source = _OMNIGLOT) -> Experiment:
    """Trained only on ICL sequences: each sequence draws new labels for its classes.

    Otherwise as `coopetition`. There are as many labels as classes in the data.
    """
    return only_icl(coopetition(data))


@preset
def coopetition_12_layers(
    data: Source = _OMNIGLOT, *, classes: int = 12_800, exemplars: int = 20
) -> Experiment:
    """Twelve layers and contexts of 8 pairs, as in `transience`; 400·10⁶ sequences."""
    base = transience(data, classes=classes, exemplars=exemplars)
    return dataclasses.replace(
        base,
        training=Training(
            num_sequences=400_000_000,
            evaluate_at=Every(2_000_000),
            checkpoint_at=Every(40_000_000),
        ),
        init_seed=5,
    )


def only_ciwl(base: Experiment) -> Experiment:
    """The run on sequences that context-constrained in-weights learning solves."""
    own = of_kind(base.task, ExemplarLabel, "the run").context
    context = Context(own.length, burstiness=0, no_support=True, unique_rest=True)
    labels = QueryLabelOnContext()
    return _with_task(base, context=context, labels=labels)


def only_icl(base: Experiment) -> Experiment:
    """The run on sequences whose label only the context tells."""
    # One label per class of the data, so that models can be grafted and compared.
    source = base.data or ExemplarLabel.source
    count = check_data(source, "the run", 2, 1)
    return _with_task(base, labels=Relabel(num_labels=count))


def mixed(base: Experiment, bursty: float) -> Experiment:
    """The run with a share `bursty` of its sequences; the others draw classes freely.

    In the others, the query's class is in the context only by chance, so only knowledge
    of the class from training helps (the mixtures of Chan et al. 2022, section 3).
    """
    own = of_kind(base.task, ExemplarLabel, "the run").context
    if isinstance(own, Mixture):
        raise ValueError("the run's sequences are already mixed")
    kinds = (own, Context(own.length, burstiness=0))
    return _with_task(base, context=Mixture(kinds, (bursty, 1 - bursty)))


def _with_task(base: Experiment, **changes) -> Experiment:
    return dataclasses.replace(base, task=dataclasses.replace(base.task, **changes))


def pair_sets(classes: int, exemplars: int, size: int = 5000) -> Sets:
    """The evaluation sets of runs with two context pairs (figure 1b).

    As in the public code, they are drawn from the first 1600 of the classes and the
    first 5 exemplars of each, so that all its runs have learned what they show.

    `train`: as in the main run. `icl`: the two classes are called 0 and 1. `flip`:
    their labels are exchanged, so an answer from the context is right, and an answer
    from knowledge of the class is wrong. `ciwl`: the query's class is not in the
    context, but its label is. `iwl`: neither is. The public code calls them
    `train_eval`, `icl`, `flip_icl`, `iwl_copy_avail` and `pure_iwl`.
    """
    support = Context()
    sets = solution_sets(size, support)
    train = dataclasses.replace(sets["iwl"], context=support)
    few = {
        "class_split": Split(min(classes, 1600), seed=None),
        "exemplar_split": Split(min(exemplars, 5), seed=None),
    }
    every = {"train": train, **sets}
    return {name: dataclasses.replace(each, **few) for name, each in every.items()}
