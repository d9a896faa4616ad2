"""What a study asks of its data."""

import functools

from ..data import HDF5Classes, OneHotClasses, Source


def check_data(data: Source, what: str, classes: int, exemplars: int) -> int:
    """The number of classes that there are.

    **Raises:** `ValueError` if there are too few classes, or exemplars of each.
    """
    found = shape(data)
    if found[0] < classes or found[1] < exemplars:
        raise ValueError(
            f"{what} needs {classes} classes of {exemplars} exemplars, got "
            f"{found[0]} of {found[1]}"
        )
    return found[0]


@functools.lru_cache(maxsize=8)
def shape(data: Source) -> tuple[int, int]:
    """Classes and exemplars of each; what is drawn from a seed is not drawn for it."""
    if isinstance(data, HDF5Classes):
        return data.load().shape[:2]
    if isinstance(data, OneHotClasses):
        return data.num_classes, 1
    return data.num_classes, data.num_exemplars
