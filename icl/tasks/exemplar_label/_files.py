"""Files of sequences: `<set>/examples`, `<set>/labels` and perhaps `<set>/classes`."""

import os

import h5py
import jax.numpy as jnp
import numpy as np

from ...batches import read_sets
from ...checks import check_axes, finite
from ._sequence import Sequence


def load_sequences(file: str | os.PathLike) -> dict[str, Sequence]:
    """Reads sets of sequences that `icl.batches.save_batches` or icl-dynamics wrote.

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
    where, there = f"set {name!r}", {}
    if isinstance(group, h5py.Group):
        there = {k: np.asarray(x) for k, x in group.items()}
    for field in ("examples", "labels"):
        if field not in there:
            raise ValueError(f"{where} has no dataset {field!r}")
    examples, labels = there["examples"], there["labels"]
    classes = there.get("classes", np.full(labels.shape, -1))
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
    whole = (labels, classes) if real else (labels, classes, examples)
    if not all(np.issubdtype(array.dtype, np.integer) for array in whole):
        got = ", ".join(str(array.dtype) for array in whole)
        wanted = "labels, classes and ids must be integers"
        raise ValueError(f"{where}: {wanted}, got {got}")
    if labels.min() < 0:
        raise ValueError(f"{where}: labels must be at least 0, got {labels.min()}")
    if real:
        finite(f"{where}: examples", examples)
    return Sequence(
        jnp.asarray(examples, jnp.float32 if real else jnp.int32),
        jnp.asarray(labels, jnp.int32),
        jnp.asarray(classes, jnp.int32),
    )
