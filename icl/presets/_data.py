"""What a preset needs of its data."""

import functools

from ..data import (
    HDF5Classes,
    LowRankClasses,
    OneHotClasses,
    Source,
    TransformedClasses,
)


def stand_in(
    classes: int, exemplars: int = 20, *, dim: int = 512, seed: int = 0
) -> TransformedClasses:
    """Synthetic classes instead of the coopetition and transience papers' features.

    Like theirs, a class is a few drawings under eight transforms. The default settings
    of `TransformedClasses` were searched for these papers; see
    `sweeps.studies.coopetition.runs`.
    """
    return TransformedClasses(classes, exemplars, dim, seed=seed)


def clusters_stand_in(
    classes: int, exemplars: int, *, dim: int, seed: int = 0
) -> LowRankClasses:
    """Synthetic classes instead of clusters of token embeddings.

    Their exemplars differ along the same directions as the classes. So a query matches
    its context only imperfectly.
    """
    return LowRankClasses(
        classes, exemplars, dim=dim, spread=0.0, class_spread=0.5, seed=seed
    )


def check_data(data: Source, what: str, classes: int, exemplars: int) -> int:
    """The number of classes in the data.

    **Raises:** `ValueError` if there are too few classes, or too few exemplars of each.
    """
    found = data_shape(data)
    if found[0] < classes or found[1] < exemplars:
        raise ValueError(
            f"{what} needs {classes} classes of {exemplars} exemplars, got "
            f"{found[0]} of {found[1]}"
        )
    return found[0]


@functools.lru_cache(maxsize=8)
def data_shape(data: Source) -> tuple[int, int]:
    """The numbers of classes and of exemplars per class; nothing is drawn for this."""
    if isinstance(data, HDF5Classes):
        return data.load().shape[:2]
    if isinstance(data, OneHotClasses):
        return data.num_classes, 1
    return data.num_classes, data.num_exemplars
