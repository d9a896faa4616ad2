"""The type of a source, and a way to write one to a file."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from ._hdf5 import HDF5Classes, refuse_target, sha256, write_classes
from ._synthetic import (
    GaussianClasses,
    LowRankClasses,
    OneHotClasses,
    TransformedClasses,
)


Source = (
    LowRankClasses | TransformedClasses | GaussianClasses | OneHotClasses | HDF5Classes
)


def absolute(source: Source) -> Source:
    """The source with the absolute path of its file, if it has one."""
    if not isinstance(source, HDF5Classes):
        return source
    return dataclasses.replace(source, file=os.path.abspath(source.file))


def digest(source: Source) -> str | None:
    """The SHA-256 of a source's file; `None` for a source that is drawn from a seed."""
    if not isinstance(source, HDF5Classes):
        return None
    return sha256(source.file)


def save_source(source: Source, out: str | os.PathLike[str]) -> tuple[int, ...]:
    """Writes the features of a source to a new HDF5 file, as the dataset `features`.

    The dataset's attributes are the version of NumPy and the source as JSON, in the
    form that a run's config has. The classes are named `class0`, `class1`, ….

    **Returns:**

    The shape of the features, `(class, exemplar, dim)`.

    **Raises:**

    `ValueError` if `out` exists, or the source has no features (`OneHotClasses`).
    """
    if isinstance(source, OneHotClasses):
        raise ValueError("source: OneHotClasses has no features to write")
    refuse_target(Path(out))
    features = source.load()
    names = [f"class{number}" for number in range(len(features))]
    setting = {"type": type(source).__name__, **dataclasses.asdict(source)}
    attributes = {"source": json.dumps(setting), "numpy": np.__version__}
    write_classes(out, "features", features, names, attributes)
    return features.shape
