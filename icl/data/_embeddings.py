"""Embeddings of a model's tokens, say, as a file of classes."""

import hashlib
import os
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Shaped

from opto.hints import did_you_mean

from ._clusters import NeighbourClusters
from ._extras import import_extra
from ._hdf5 import refuse_target, write_classes


def read_embeddings(
    file: str | os.PathLike[str], tensor: str = ""
) -> Float32[np.ndarray, "row dim"]:
    """Reads a matrix from a `.npy` or `.safetensors` file.

    **Arguments:**

    - `file`: Of floats or integers of any width, bfloat16 among them.
    - `tensor`: Its name in a `.safetensors` file; empty means the only one there with
        two axes.

    **Raises:**

    `ValueError` if the file is not there, damaged or of another kind, has no such
    tensor, or the tensor is not a matrix; or if safetensors is needed and not installed
    (`make EXTRA=clusters`).
    """
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"embeddings: there is no file {path}")
    if path.suffix == ".safetensors":
        matrix, name = _from_safetensors(path, tensor)
    elif path.suffix == ".npy":
        if tensor:
            raise ValueError(
                f"tensor: {path} holds one matrix without a name, so tensor must be "
                f"left out, got {tensor!r}"
            )
        matrix, name = _from_npy(path), str(path)
    else:
        raise ValueError(
            f"embeddings must be a .npy or .safetensors file, got {path.name!r}"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"embeddings: {name} must have shape [row, dim] and not be empty, got "
            f"{list(matrix.shape)}"
        )
    # NumPy does not know bfloat16 and the like for floats.
    if matrix.dtype.kind not in "fiu" and "float" not in matrix.dtype.name:
        raise ValueError(
            f"embeddings: {name} must hold floats or integers, got {matrix.dtype}"
        )
    with np.errstate(over="ignore"):  # told by `NeighbourClusters.find`
        return np.asarray(matrix, np.float32)


def make_clusters(
    embeddings: str | os.PathLike[str],
    out: str | os.PathLike[str],
    clusters: NeighbourClusters,
    *,
    tensor: str = "",
) -> tuple[int, ...]:
    """Turns the rows of a matrix into an HDF5 file of classes for `HDF5Classes`.

    The dataset `clusters` holds the rows as they were given (in float32), whatever the
    metric; the dataset `rows`, `[class, exemplar]`, which rows they are.

    **Arguments:**

    - `embeddings`, `tensor`: See `read_embeddings`.
    - `out`: The file to write; an existing one is refused.
    - `clusters`: How classes are found.

    **Returns:**

    The shape of what was written, `(class, exemplar, dim)`.
    """
    refuse_target(Path(out))
    matrix = read_embeddings(embeddings, tensor)
    rows = clusters.find(matrix)
    with open(embeddings, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    attributes = {
        "embeddings": Path(embeddings).name,
        "embeddings_sha256": digest,
        "tensor": tensor,
        "num_rows": len(matrix),
        "metric": clusters.metric,
        "seed": clusters.seed,
        "faiss": import_extra("faiss", "clusters", "clusters").__version__,
    }
    names = [f"cluster{number}" for number in range(len(rows))]
    features = matrix[rows]
    write_classes(out, "clusters", features, names, attributes, rows=rows)
    return features.shape


def _from_npy(path: Path) -> Shaped[np.ndarray, "..."]:
    """The array, on the disk until it is used."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"embeddings: cannot read {path}: {reason}") from error


def _from_safetensors(path: Path, tensor: str) -> tuple[Shaped[np.ndarray, "..."], str]:
    """The tensor, and what it is called in errors."""
    safetensors = import_extra("safetensors", "clusters", f"embeddings: {path}")
    try:
        with safetensors.safe_open(path, "np") as opened:
            shapes = {
                name: opened.get_slice(name).get_shape() for name in opened.keys()
            }
            name = tensor or _only_matrix(path, shapes)
            if name in shapes:
                return opened.get_tensor(name), f"{name!r} of {path}"
    except (OSError, safetensors.SafetensorError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"embeddings: cannot read {path}: {reason}") from error
    holds = f"; it holds {_listing(shapes)}"
    hint = did_you_mean(name, shapes, cutoff=0.4) or holds
    raise ValueError(f"tensor: {path} has no tensor {name!r}{hint}")


def _only_matrix(path: Path, shapes: dict[str, list[int]]) -> str:
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(matrices) != 1:
        raise ValueError(
            f"tensor must be named, as {path} has {len(matrices)} with two axes; it "
            f"holds {_listing(shapes)}"
        )
    return matrices[0]


def _listing(shapes: dict[str, list[int]]) -> str:
    most = 10
    shown = [f"{name!r} {shape}" for name, shape in list(shapes.items())[:most]]
    more = f" and {len(shapes) - most} more" if len(shapes) > most else ""
    return f"{', '.join(shown) or 'nothing'}{more}"
