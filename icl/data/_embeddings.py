"""A matrix of embeddings, such as a model's tokens, as a file of classes."""

import os
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Shaped

from opto.hints import did_you_mean

from ..plugins import import_extra
from ._clusters import NeighbourClusters
from ._hdf5 import listing, refuse_target, sha256, write_classes


def read_embeddings(
    file: str | os.PathLike[str], tensor: str = ""
) -> Float32[np.ndarray, "row dim"]:
    """Reads a matrix from a `.npy` or `.safetensors` file.

    **Arguments:**

    - `file`: Its values are floats (bfloat16 too) or integers of any width.
    - `tensor`: Its name in a `.safetensors` file; empty means the only tensor with two
        axes.

    **Raises:**

    `ValueError` if the file is of another kind, if it has no such tensor, or if the
    tensor is not a matrix; also if safetensors is needed but not installed (`make
    EXTRA=clusters`).
    """
    path = Path(file)
    if path.suffix == ".safetensors":
        matrix = _from_safetensors(path, tensor)
    elif path.suffix == ".npy" and not tensor:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        raise ValueError(
            "embeddings must be a .npy file, or a .safetensors file and perhaps the "
            f"name of a tensor, got {path.name!r} and {tensor!r}"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"embeddings: {path} must have shape [row, dim] and not be empty, got "
            f"{list(matrix.shape)}"
        )
    # NumPy itself does not know that bfloat16 and similar types are floats.
    if matrix.dtype.kind not in "fiu" and "float" not in matrix.dtype.name:
        raise ValueError(
            f"embeddings: {path} must hold floats or integers, got {matrix.dtype}"
        )
    with np.errstate(over="ignore"):  # `NeighbourClusters.find` reports it
        return np.asarray(matrix, np.float32)


def make_clusters(
    embeddings: str | os.PathLike[str],
    out: str | os.PathLike[str],
    clusters: NeighbourClusters,
    *,
    tensor: str = "",
) -> tuple[int, ...]:
    """Turns the rows of a matrix into an HDF5 file of classes for `HDF5Classes`.

    The dataset `clusters` holds the rows as given (in float32), for either metric. The
    dataset `rows`, `[class, exemplar]`, has their row numbers.

    **Arguments:**

    - `embeddings`, `tensor`: See `read_embeddings`.
    - `out`: The file to write; it must not exist yet.
    - `clusters`: How to find the classes.

    **Returns:**

    The shape of the written dataset, `(class, exemplar, dim)`.
    """
    refuse_target(Path(out))
    matrix = read_embeddings(embeddings, tensor)
    rows = clusters.find(matrix)
    attributes = {
        "embeddings": Path(embeddings).name,
        "embeddings_sha256": sha256(embeddings),
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


def _from_safetensors(path: Path, tensor: str) -> Shaped[np.ndarray, "..."]:
    safetensors = import_extra("safetensors", "clusters", f"embeddings: {path}")
    with safetensors.safe_open(path, "np") as opened:
        shapes = {name: opened.get_slice(name).get_shape() for name in opened.keys()}
        matrices = [name for name, shape in shapes.items() if len(shape) == 2]
        if not tensor and len(matrices) == 1:
            tensor = matrices[0]
        if tensor in shapes:
            return opened.get_tensor(tensor)
    hint = did_you_mean(tensor, shapes, cutoff=0.4) or f"; it holds {listing(shapes)}"
    raise ValueError(f"tensor: {path} has no tensor {tensor!r}{hint}")
