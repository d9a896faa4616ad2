"""The arrays of a model or of a state, in a file."""

import io
from pathlib import Path
from typing import TypeVar

import equinox as eqx
from jaxtyping import PyTree


Tree = TypeVar("Tree", bound=PyTree)


def tree_bytes(tree: PyTree) -> memoryview:
    """The file of a tree's arrays, without whatever else is in it."""
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, eqx.filter(tree, eqx.is_array))
    return buffer.getbuffer()


def read_tree(file: Path, template: Tree) -> Tree:
    """The template with the arrays of a file.

    **Raises:** `ValueError` if the file cannot be read, is damaged or does not fit.
    """
    arrays, static = eqx.partition(template, eqx.is_array)
    try:
        with open(file, "rb") as stream:
            arrays = eqx.tree_deserialise_leaves(stream, arrays)
            if stream.read(1):
                raise ValueError("it holds more arrays")
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror or error}") from None
    except (EOFError, RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        wrong = "is damaged or of another model"
        raise ValueError(f"{file} {wrong}: {first}") from None
    return eqx.combine(arrays, static)
