"""Examples of any task: drawn, written to a file, and read again."""

import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from .files import open_hdf5, write_hdf5


Read = TypeVar("Read")


def example_of(task: Any) -> Any:
    """The shapes and dtypes of one example of a task."""
    draw = lambda: task.sample(key=jax.random.key(0), seen=0)
    return eqx.filter_eval_shape(draw)


def batch(task: Any, size: int, *, key: PRNGKeyArray, seen: int = 0) -> Any:
    """Independent examples of any task, with a leading axis of length `size`.

    **Arguments:**

    - `seen`: How many sequences training has seen, for a task with a curriculum.
    """
    keys = jax.random.split(key, size)
    return jax.vmap(lambda key: task.sample(key=key, seen=seen))(keys)


def size_of(batch: PyTree) -> int:
    """How many examples a batch has."""
    return len(jax.tree.leaves(batch)[0])


def first_of(batch: PyTree) -> Any:
    """The first example of a batch."""
    return jax.tree.map(lambda x: x[0], batch)


def save_batches(
    file: str | os.PathLike, sets: Mapping[str, PyTree], owner: str | None = None
) -> None:
    """Writes named batches to a file: `<set>/<field>`, each an array.

    The file appears whole or not at all: the function writes it under another name,
    flushes it to the disk and renames it. If that fails, an old file stays as it was.

    **Arguments:**

    - `file`: Where to write; an existing file is replaced.
    - `sets`: Batches of examples by name: modules of arrays with a leading axis.
    - `owner`: Whose file it is, see `icl.checksums`.

    **Raises:** `ValueError` if `sets` is empty or a name is not valid in HDF5.
    """
    if not sets:
        raise ValueError("sets must have at least one set to save, got none")
    for name in sets:
        if not name or "/" in name or name.startswith("."):
            raise ValueError(f"a set's name must be nonempty without '/', got {name!r}")

    def fill(opened: h5py.File) -> None:
        for name, examples in sets.items():
            for field, leaf in fields_of(examples):
                opened[f"{name}/{field}"] = np.asarray(leaf)

    write_hdf5(pathlib.Path(file), fill, owner)


def load_batches(
    file: str | os.PathLike,
    example: PyTree,
    *,
    owner: str | None = None,
    examples: Mapping[str, PyTree] | None = None,
) -> dict[str, Any]:
    """Reads the batches that `save_batches` wrote.

    Numbers may have any value, for example NaN for padding, unless the example's module
    has a method `check_batch`. It is called on each batch and raises `ValueError` for a
    bad one.

    **Arguments:**

    - `example`: An example of the task; its arrays may be shapes, as in `example_of`.
    - `owner`: Whose file it must be. The file then needs a checksum. `None` accepts any
        file.
    - `examples`: Examples of those sets, by name, that may have other fields.

    **Raises:** `ValueError` if the file is missing, damaged or not HDF5, a field of a
    set is missing or has another rank or type, or `check_batch` raises for a set.
    """
    own = examples or {}

    def read(name: str, group: Any) -> Any:
        return _read(name, group, own.get(name, example))

    return read_sets(file, read, owner)


def read_sets(
    file: str | os.PathLike, read: Callable[[str, Any], Read], owner: str | None = None
) -> dict[str, Read]:
    """What a function reads from each set of a file, by the set's name.

    **Raises:** `ValueError` if the file is missing, damaged, not HDF5 or without sets,
    and as `read`.
    """
    path = pathlib.Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        with open_hdf5(path, owner) as opened:
            sets = {str(name): read(str(name), group) for name, group in opened.items()}
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read sequences from {path}: {error}") from error
    if not sets:
        raise ValueError(f"{path} holds no sets of sequences")
    return sets


def fields_of(example: PyTree) -> Iterator[tuple[str, Any]]:
    """Each array and its name, `field` or `field/part`."""
    for path, leaf in jax.tree.leaves_with_path(example):
        yield jax.tree_util.keystr(path, simple=True, separator="/"), leaf


def _read(name: str, group: Any, example: PyTree) -> Any:
    where, length, leaves = f"set {name!r}", None, []
    for field, leaf in fields_of(example):
        stored = group.get(field) if isinstance(group, h5py.Group) else None
        if not isinstance(stored, h5py.Dataset):
            raise ValueError(f"{where} has no dataset {field!r}")
        found = np.asarray(stored[()])
        wanted = f"{leaf.dtype} with {leaf.ndim + 1} axes"
        if found.ndim != leaf.ndim + 1 or not _is_kind(found, leaf):
            got = f"{found.dtype} {[*found.shape]}"
            raise ValueError(f"{where}: {field} must be {wanted}, got {got}")
        if not len(found) or len(found) != (length or len(found)):
            got = f"{len(found)} examples, but other fields have {length}"
            raise ValueError(f"{where}: {field} has {got}")
        length = len(found)
        leaves.append(jnp.asarray(found, leaf.dtype))
    batch = jax.tree.unflatten(jax.tree.structure(example), leaves)
    check = getattr(batch, "check_batch", None)
    if check is not None:
        try:
            check()
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return batch


def _is_kind(found: np.ndarray, leaf: Any) -> bool:
    """Whether both are floats, both are integers, or both are booleans."""
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    return any(
        jnp.issubdtype(found.dtype, kind) and jnp.issubdtype(leaf.dtype, kind)
        for kind in kinds
    )
