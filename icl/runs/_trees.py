"""The arrays of a model or a training state in a file."""

import contextlib
import functools
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..checksums import DamagedFileError


Tree = TypeVar("Tree", bound=PyTree)
Recast = Callable[[Path, np.dtype, np.dtype], None]
"""A function that is called if a file has one precision and this process another."""


def tree_bytes(tree: PyTree) -> memoryview:
    """A file of a tree's arrays, without the rest of the tree."""
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, eqx.filter(tree, eqx.is_array))
    return buffer.getbuffer()


@contextlib.contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turns an error while reading a file of arrays into a `ValueError`."""
    try:
        yield
    except DamagedFileError as error:
        raise ValueError(f"{file} is damaged or of another run: {error}") from None
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror or error}") from None


def tree_of(content: memoryview, file: Path, template: Tree, recast: Recast) -> Tree:
    """The template with the arrays of a file's content.

    Arrays of another precision (32 or 64 bits of one kind) get the template's.

    **Arguments:** `recast`: Called in that case; it may refuse.

    **Raises:** `ValueError` if the content is damaged or does not fit.
    """
    arrays, static = eqx.partition(template, eqx.is_array)
    stream = io.BytesIO(content)
    precisions: set[tuple[np.dtype, np.dtype]] = set()

    def read_leaf(stream: io.BytesIO, leaf: Any) -> Any:
        at = stream.tell()
        stored = _dtype(stream)
        stream.seek(at)
        if not _is_recast(stored, leaf.dtype):
            return eqx.default_deserialise_filter_spec(stream, leaf)
        precisions.add((stored, leaf.dtype))
        array = np.load(stream)
        own = np if isinstance(leaf, np.ndarray) else jnp
        return own.asarray(array, leaf.dtype)

    try:
        arrays = eqx.tree_deserialise_leaves(stream, arrays, read_leaf)
        if stream.read(1):
            raise ValueError("it holds more arrays")
    except (EOFError, RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        wrong = "is damaged or of another model"
        raise ValueError(f"{file} {wrong}: {first}") from None
    for stored, wanted in sorted(precisions, key=str):
        recast(file, stored, wanted)
    return eqx.combine(arrays, static)


def say_recast(file: Path, stored: np.dtype, wanted: np.dtype) -> None:
    """Warns that weights are read in another precision, once per run."""
    _say_recast(file.parents[1], stored, wanted)


def refuse_recast(file: Path, stored: np.dtype, wanted: np.dtype) -> None:
    """Raises `ValueError`: a run keeps its precision to the end."""
    setting = int(stored.itemsize == 8)
    raise ValueError(
        f"{file} has {stored} arrays, but this process would continue with {wanted}: "
        f"resume with JAX_ENABLE_X64={setting}, as at the run's start"
    )


@functools.cache
def _say_recast(run: Path, stored: np.dtype, wanted: np.dtype) -> None:
    text = f"{run} was trained in {stored}; here its weights are read as {wanted}"
    warnings.warn(f"{text}, because jax_enable_x64 differs", stacklevel=2)


def _dtype(stream: io.BytesIO) -> np.dtype:
    """The dtype of the array that begins here."""
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"it has an array of format {version}")
    return np.lib.format.read_array_header_1_0(stream)[2]


def _is_recast(stored: np.dtype, wanted: Any) -> bool:
    sizes = {stored.itemsize, np.dtype(wanted).itemsize}
    return stored.kind == np.dtype(wanted).kind in "fiu" and sizes == {4, 8}
