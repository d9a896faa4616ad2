"""Evaluation sets in HDF5: `<set>/examples`, `<set>/labels` and `<set>/classes`."""

import os
from collections.abc import Mapping

import h5py
import jax.numpy as jnp
import numpy as np

from ...batches import read_sets, save_batches
from ...checks import check_axes, finite
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
    real = np.issubdtype(examples.dtype, np.floating)
    axes = "sequence exemplar"
    check_axes(
        **{
            f"{where}: labels": (labels, axes),
            f"{where}: classes": (classes, axes),
            f"{where}: examples": (examples, f"{axes} dim" if real else axes),
        }
    )
    if labels.shape[1] < 2 or not labels.size:
        wanted = "a context and a query in each of at least one sequence"
        raise ValueError(f"{where}: labels must have {wanted}, got {labels.shape}")
    whole = {"labels": labels, "classes": classes}
    if not real:
        whole["examples without a dim axis"] = examples
    for name, array in whole.items():
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{where}: {name} must be integers, got {array.dtype}")
    if labels.min() < 0:
        raise ValueError(f"{where}: labels must be at least 0, got {labels.min()}")
    if real:
        finite(f"{where}: examples", examples)
