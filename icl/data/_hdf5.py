"""Classes in an HDF5 file: reading and writing."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Float32, Int

from opto.hints import did_you_mean

from ..checks import finite
from ..files import check_writable, open_hdf5, write_hdf5


@dataclasses.dataclass(frozen=True)
class HDF5Classes:
    """A dataset of an HDF5 file, of shape `[class, exemplar, dim]`.

    It may hold floats or integers of any width. It may have more axes, which are
    flattened into `dim` (images are `[class, exemplar, height, width]`).
    """

    file: str
    """The file."""
    path: str = ""
    """The dataset in the file; empty means the only one with three or more axes."""

    def load(self) -> Float32[np.ndarray, "class exemplar dim"]:
        """Reads the features.

        **Raises:**

        `ValueError` if there is no such file or dataset, the file is not HDF5 or is
        damaged, or the dataset has another shape or type or a value that is not finite.
        """
        if not Path(self.file).is_file():
            raise ValueError(f"file: there is no file {self.file}")
        try:
            with open_hdf5(self.file) as opened:
                features = _read(self.file, _find(self.file, opened, self.path))
        except (OSError, RuntimeError, KeyError) as error:
            reason = f"{self.file} as HDF5: {' '.join(str(error).split())}"
            raise ValueError(f"file: cannot read {reason}") from error
        finite(f"file: the values in {self.file}", features)
        return features


def classes_in(text: str) -> HDF5Classes:
    """The classes that a command's `--data` names, `FILE.h5` or `FILE.h5:DATASET`.

    **Raises:** `ValueError` if the file does not exist or is not HDF5.
    """
    file, colon, path = text.rpartition(":")
    if not colon or os.path.exists(text):
        file, path = text, ""
    source = HDF5Classes(os.path.abspath(file), path)
    if not Path(source.file).is_file():
        raise ValueError(f"--data: there is no file {source.file}")
    if not h5py.is_hdf5(source.file):
        raise ValueError(f"--data: {source.file} is not an HDF5 file")
    return source


def write_classes(
    file: str | os.PathLike[str],
    path: str,
    features: Float32[np.ndarray, "class exemplar *dims"],
    names: Sequence[str],
    attributes: Mapping[str, str | int | float | Sequence[str]],
    *,
    rows: Int[np.ndarray, "class exemplar"] | None = None,
) -> None:
    """Writes classes to a new HDF5 file that `HDF5Classes` reads.

    The file appears whole or not at all: the function writes it under another name in
    the same folder, flushes it to the disk and renames it.

    **Arguments:**

    - `file`: Where to write; the file must not exist yet.
    - `path`: Name of the dataset of features; not `names` or `rows`.
    - `features`: Finite, with at least one axis after the first two.
    - `names`: A name for each class; stored in the dataset `names`.
    - `attributes`: How the features were made; stored as attributes of the dataset.
    - `rows`: Each exemplar's row in a matrix; stored in the dataset `rows`.

    **Raises:**

    `ValueError` if an argument is not like this, `OSError` if writing fails (for
    example, because the disk is full).
    """
    target = Path(file)
    refuse_target(target)
    if features.ndim < 3 or 0 in features.shape:
        raise ValueError(
            "features must have shape [class, exemplar, dim, …] and not be empty, got "
            f"{features.shape}"
        )
    finite("features", features)
    if len(names) != len(features):
        raise ValueError(
            f"names must have one name per class, {len(features)}, got {len(names)}"
        )

    def fill(opened: h5py.File) -> None:
        dataset = opened.create_dataset(path, data=features, dtype=np.float32)
        dataset.attrs.update(attributes)
        opened.create_dataset("names", data=list(names), dtype=h5py.string_dtype())
        if rows is not None:
            opened["rows"] = rows

    write_hdf5(target, fill)


def sha256(file: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def refuse_target(target: Path) -> None:
    """Raises `ValueError` if the file cannot be made or would replace another."""
    if os.path.lexists(target):
        raise ValueError(f"file: {target} exists and is not overwritten")
    if not target.parent.is_dir():
        raise ValueError(f"file: there is no folder {target.parent}")
    check_writable(target.parent)


def _find(file: str, opened: h5py.File, path: str) -> h5py.Dataset:
    """The dataset at `path`, or the only one with three or more axes."""
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, node: h5py.Dataset | h5py.Group) -> None:
        if isinstance(node, h5py.Dataset):
            shapes[name] = node.shape or ()

    opened.visititems(visit)
    if not path:
        candidates = [name for name, shape in shapes.items() if len(shape) >= 3]
        if len(candidates) != 1:
            got = f"{len(candidates)} datasets with three or more axes"
            raise ValueError(f"path: {file} has {got}; it holds {listing(shapes)}")
        path = candidates[0]
    node = opened.get(path)
    if not isinstance(node, h5py.Dataset):
        hint = did_you_mean(path.strip("/"), shapes, cutoff=0.4)
        hint = hint or f"; it holds {listing(shapes)}"
        raise ValueError(f"path: {file} has no dataset {path!r}{hint}")
    return node


def listing(shapes: Mapping[str, Sequence[int]]) -> str:
    """The first arrays of a file, with their shapes."""
    most = 10
    shown = [f"{name!r} {list(shape)}" for name, shape in list(shapes.items())[:most]]
    more = f" and {len(shapes) - most} more" if len(shapes) > most else ""
    return f"{', '.join(shown) or 'nothing'}{more}"


def _read(
    file: str, dataset: h5py.Dataset
) -> Float32[np.ndarray, "class exemplar dim"]:
    shape = dataset.shape or ()
    where = f"path: {dataset.name!r} of {file}"
    if len(shape) < 3 or 0 in shape:
        raise ValueError(
            f"{where} must have shape [class, exemplar, dim] and not be empty, got "
            f"{list(shape)}"
        )
    if dataset.dtype.kind not in "fiu":
        raise ValueError(f"{where} must hold floats or integers, got {dataset.dtype}")
    # HDF5 converts it, so a float64 file is never in memory as float64.
    features = dataset.astype(np.float32)[...]
    return features.reshape(shape[0], shape[1], -1)
