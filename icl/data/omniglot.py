"""Omniglot (Lake et al., 2015): handwritten characters as classes."""

import io
import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from PIL import Image

from ..checks import check_index
from ._symmetry import check_symmetries, class_names, Symmetry


SIDE = 105  # pixels of a published drawing
_DRAWERS = 20  # each character was drawn once by each of 20 people
_DRAWING = re.compile(r"(?:.*/)?([^/]+/character\d+)/(\d+)_(\d+)\.png")


def read_omniglot(
    paths: Sequence[str | os.PathLike[str]],
    *,
    size: int = 28,
    symmetries: Sequence[Symmetry] = (Symmetry(),),
    shuffle: int | None = None,
) -> tuple[list[str], Float32[np.ndarray, "class exemplar size size"]]:
    """Reads Omniglot's drawings: one class per character and symmetry.

    **Arguments:**

    - `paths`: The published zips, or folders of unpacked zips. A character that is in
        several of them is read once (the two small background sets share 50).
    - `size`: Pixels on a side, at most the published 105. PIL's box filter reduces the
        drawings: a pixel is the mean of a block of published pixels, which has 3 or 4
        on a side at size 28.
    - `symmetries`: Turns and mirror images of every character. Each makes its own
        class; the first is the drawing as it is. They apply to the published pixels,
        before the reduction.
    - `shuffle`: The seed of a random order of the characters; `None` sorts them by
        name, so the last characters all belong to one alphabet.

    **Returns:**

    The names of the classes, for example `"Balinese/character01"` or
    `"Balinese/character01@turn90,mirrored"`; and their drawings in [0, 1] with ink 1,
    in the order of the 20 people who drew them. Class `k` is character
    `k // len(symmetries)` under symmetry `k % len(symmetries)`.

    **Raises:**

    `ValueError` if a path is damaged, or is neither a zip nor a folder; if there is no
    character, if one does not have drawings 1 to 20 of 105×105 pixels, or if two
    different characters have the same name.
    """
    if isinstance(paths, str) or not paths:
        raise ValueError(f"paths must be a list of zips or folders, got {paths!r}")
    if not 1 <= size <= SIDE:
        raise ValueError(f"size must be from 1 to {SIDE}, got {size}")
    check_symmetries(symmetries)
    if shuffle is not None:
        check_index("shuffle", shuffle)
    found: dict[str, np.ndarray] = {}
    for path in paths:
        characters = list(_characters(Path(path)))
        if not characters:
            raise ValueError(
                f"paths: no characters (alphabet/character01/0001_01.png) in {path}"
            )
        for name, files in characters:
            drawings = np.stack([_decode(name, file) for file in files])
            images = np.stack([_reduce(sym(drawings), size) for sym in symmetries])
            if not np.array_equal(found.setdefault(name, images), images):
                raise ValueError(f"paths: {name} occurs twice with different drawings")
    names = sorted(found)
    if shuffle is not None:
        order = np.random.default_rng(shuffle).permutation(len(names))
        names = [names[k] for k in order]
    # One at a time: all of Omniglot as published takes 1.4 GB.
    images = np.empty((len(names), *found[names[0]].shape), np.float32)
    for k, name in enumerate(names):
        images[k] = found.pop(name)
    return class_names(names, symmetries), images.reshape(-1, *images.shape[2:])


def _characters(path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """The characters of a zip or folder: each name, and its files by drawer."""
    # Group by folder, because two folders may have the same character.
    folders: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
    for file, content in _files(path):
        match = _DRAWING.fullmatch(file)
        if match is not None:
            number, drawer = match[2], int(match[3])
            folders[file.rpartition("/")[0]].append((number, drawer, content))
    for folder in sorted(folders):
        drawings = sorted(folders[folder])
        name = "/".join(folder.split("/")[-2:])
        got = [f"{number}_{drawer:02d}" for number, drawer, _ in drawings]
        wanted = [f"{drawings[0][0]}_{drawer:02d}" for drawer in range(1, _DRAWERS + 1)]
        if got != wanted:
            raise ValueError(
                f"paths: {name} in {path} must have drawings {wanted[0]} to "
                f"{wanted[-1]}, got {len(got)}: {', '.join(got)}"
            )
        yield name, [content for _, _, content in drawings]


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """The drawings in a zip or folder: path (with '/') and content."""
    if path.is_dir():
        # Absolute: if `path` is an alphabet, its name is needed.
        for file in path.absolute().rglob("*.png"):
            yield file.as_posix(), file.read_bytes()
    elif not zipfile.is_zipfile(path):
        what = "is neither a zip nor a folder" if path.exists() else "does not exist"
        raise ValueError(f"paths: {path} {what}")
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                for file in archive.namelist():
                    if _DRAWING.fullmatch(file):
                        yield file, archive.read(file)
        except Exception as error:  # of many kinds
            raise ValueError(f"paths: the zip {path} is damaged: {error}") from error


def _decode(name: str, content: bytes) -> Float32[np.ndarray, "side side"]:
    """A drawing as published, in [0, 1] with ink 1; the PNGs have black ink."""
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            width, height = image.size
            if width != SIDE or height != SIDE:
                raise ValueError(f"it must be {SIDE}×{SIDE}, got {width}×{height}")
            return 1 - np.asarray(image.convert("L"), np.float32) / 255
    except Exception as error:  # of many kinds
        raise ValueError(f"paths: cannot read a drawing of {name}: {error}") from error


def _reduce(
    drawings: Float32[np.ndarray, "exemplar side side"], size: int
) -> Float32[np.ndarray, "exemplar size size"]:
    """Drawings reduced to `size` pixels on a side by PIL's box filter."""
    if size == SIDE:
        return drawings
    box = Image.Resampling.BOX
    images = (Image.fromarray(np.ascontiguousarray(ink)) for ink in drawings)
    return np.stack([np.asarray(image.resize((size, size), box)) for image in images])
