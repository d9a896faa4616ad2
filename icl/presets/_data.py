"""What a preset asks of its data."""

import functools

from ..data import HDF5Classes, LowRankClasses, OneHotClasses, Source


def stand_in(
    classes: int, exemplars: int = 20, *, dim: int = 512, seed: int = 0
) -> LowRankClasses:
    """Synthetic classes in place of the coopetition and transience papers' features.

    Their exemplars differ along the same directions as the classes do, which is what
    makes matching a query to its context imperfect, and learning in context transient:
    with independent noise of features instead, it stays.
    """
    return LowRankClasses(
        classes, exemplars, dim=dim, spread=0.0, class_spread=0.5, seed=seed
    )


def check_data(data: Source, what: str, classes: int, exemplars: int) -> int:
    """The number of classes that there are.

    **Raises:** `ValueError` if there are too few classes, or exemplars of each.
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
    """Classes and exemplars of each; what is drawn from a seed is not drawn for it."""
    if isinstance(data, HDF5Classes):
        return data.load().shape[:2]
    if isinstance(data, OneHotClasses):
        return data.num_classes, 1
    return data.num_classes, data.num_exemplars
