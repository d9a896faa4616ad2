"""Evaluation sets in HDF5: `<set>/examples`, `<set>/labels` and `<set>/classes`."""

import os
from collections.abc import Mapping

import h5py
import jax.numpy as jnp
import numpy as np

from ...batches import read_sets, save_batches
from ...checks import finite
from ._sequence import Sequence


def save_sequences(
    file: str | os.PathLike, sets: Mapping[str, Sequence], owner: str | None = None
) -> None:
    """As `icl.batches.save_batches`, for sequences that it checks first.

    **Arguments:**

    - `sets`: Batches of sequences by name, with a leading axis before those of
        `Sequence`.

    **Raises:** `ValueError` for arrays that are no batch of sequences.
    """
    for name, batch in sets.items():
        fields = ("examples", "labels", "classes")
        arrays = {field: np.asarray(getattr(batch, field)) for field in fields}
        _check(f"set {name!r}", **arrays)
    save_batches(file, sets, owner)


def load_sequences(file: str | os.PathLike) -> dict[str, Sequence]:
    """Reads the sets of sequences that `save_sequences` or icl-dynamics wrote.

    **Arguments:**

    - `file`: An HDF5 file. If a set has no `classes`, they are -1.

    **Returns:**

    Batches of sequences by name, with a leading axis before those of `Sequence`.

    **Raises:**

    `ValueError` if the file is not HDF5, or an array of a set is missing or has the
    wrong shape or type.
    """
    return read_sets(file, _read)


def _read(name: str, group: object) -> Sequence:
    where = f"set {name!r}"
    if not isinstance(group, h5py.Group):
        raise ValueError(f"{where} must be a group with examples and labels")
    arrays = {}
    for field in ("examples", "labels", "classes"):
        stored = group.get(field)
        if isinstance(stored, h5py.Dataset):
            arrays[field] = np.asarray(stored[()])
        elif field != "classes":
            raise ValueError(f"{where} has no dataset {field!r}, only {[*group]}")
    examples, labels = arrays["examples"], arrays["labels"]
    classes = arrays.get("classes", np.full(labels.shape, -1))
    _check(where, examples, labels, classes)
    real = np.issubdtype(examples.dtype, np.floating)
    return Sequence(
        jnp.asarray(examples, jnp.float32 if real else jnp.int32),
        jnp.asarray(labels, jnp.int32),
        jnp.asarray(classes, jnp.int32),
    )


def _check(where: str, examples, labels, classes) -> None:
    """Raises `ValueError` unless the arrays are a batch of sequences."""
    shape = np.shape(labels)
    if len(shape) != 2 or shape[1] < 2 or 0 in shape:
        raise ValueError(
            f"{where}: labels must have shape [sequence, exemplar], with a context "
            f"and the query, got {shape}"
        )
    if np.shape(classes) != shape:
        raise ValueError(
            f"{where}: classes must have the shape of labels, {shape}, got "
            f"{np.shape(classes)}"
        )
    for name, value in (("labels", labels), ("classes", classes)):
        _check_integers(f"{where}: {name}", value)
    if labels.min() < 0:
        raise ValueError(f"{where}: labels must be at least 0, got {labels.min()}")
    rank = np.ndim(examples)
    if rank not in (2, 3) or np.shape(examples)[:2] != shape:
        raise ValueError(
            f"{where}: examples must have shape [sequence, exemplar] or [sequence, "
            f"exemplar, dim], where the first two axes are those of labels, {shape}, "
            f"got {np.shape(examples)}"
        )
    if rank == 2:
        _check_integers(f"{where}: examples without a dim axis", examples)
    elif not np.issubdtype(examples.dtype, np.floating):
        raise ValueError(f"{where}: examples must be floats, got {examples.dtype}")
    else:
        finite(f"{where}: examples", examples)


def _check_integers(what: str, value: np.ndarray) -> None:
    if not np.issubdtype(value.dtype, np.integer):
        raise ValueError(f"{what} must be integers, got {value.dtype}")
    limits = np.iinfo(np.int32)
    if value.min() < limits.min or value.max() > limits.max:
        raise ValueError(f"{what} must fit in 32 bits, got {value.min()}…{value.max()}")
