"""Omniglot (Lake et al., 2015): handwritten characters as classes."""

import dataclasses
import io
import json
import math
import os
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float32
from PIL import Image

from ._check import check_integer
from ._conv import ConvEncoder
from ._hdf5 import refuse_target, write_classes


_SIDE = 105  # pixels of a published drawing
_DRAWERS = 20  # each character was drawn once by each of 20 people
_SCALE = 3.0
_DRAWING = re.compile(r"(?:.*/)?([^/]+/character\d+)/(\d+)_(\d+)\.png")
_BROKEN_ZIP = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(RuntimeError, NotImplementedError),  # encrypted; unknown compression
)
_BROKEN_PNG = (
    *(OSError, SyntaxError, ValueError, EOFError, zlib.error),
    *(Image.DecompressionBombError, Image.DecompressionBombWarning),
)


def read_omniglot(
    paths: Sequence[str | os.PathLike[str]], *, size: int = 28
) -> tuple[list[str], Float32[np.ndarray, "class exemplar size size"]]:
    """Reads Omniglot's drawings, a class per character.

    **Arguments:**

    - `paths`: The published zips, or folders that they were unpacked to. A character
        that is in several of them (the two small background sets share 50) is read
        once.
    - `size`: Pixels on a side, at most the published 105. PIL's box filter reduces the
        drawings: a pixel is the mean of a block of those published, which is 3 or 4 on
        a side at size 28.

    **Returns:**

    The names of the characters, such as `"Balinese/character01"`, sorted; and their
    drawings in [0, 1] with ink 1, in the order of the 20 people who drew them.

    **Raises:**

    `ValueError` if a path is neither a zip nor a folder, or is damaged; if there is no
    character, one is without drawings 1 to 20 of 105×105 pixels, or two differ that
    have the same name.
    """
    if isinstance(paths, str) or not paths:
        raise ValueError(f"paths must be a list of zips or folders, got {paths!r}")
    check_integer("size", size, 1)
    if size > _SIDE:
        raise ValueError(f"size must be at most {_SIDE}, got {size}")
    found: dict[str, np.ndarray] = {}
    for path in paths:
        characters = list(_characters(Path(path)))
        if not characters:
            raise ValueError(
                f"paths: no characters (alphabet/character01/0001_01.png) in {path}"
            )
        for name, drawings in characters:
            images = np.stack([_decode(name, file, size) for file in drawings])
            if not np.array_equal(found.setdefault(name, images), images):
                raise ValueError(f"paths: {name} is there twice with other drawings")
    names = sorted(found)
    return names, np.stack([found[name] for name in names])


def pca_whiten(
    images: Float32[np.ndarray, "class exemplar height width"], dims: int
) -> Float32[np.ndarray, "class exemplar dims"]:
    """Projects images on their leading principal components, at unit variance.

    Pixels are centred and projected on the eigenvectors of their covariance with the
    largest eigenvalues, and each projection is divided by its standard deviation. Mean
    and covariance are over all the given images (of all classes and exemplars, so of
    whatever is held out later too), with the divisor n, so that the mean square of each
    feature is 1. The sign of a component is such that its largest entry is positive.

    **Arguments:**

    - `dims`: How many components, at most the rank of the centred images.
    """
    check_integer("dims", dims, 1)
    shape = images.shape
    pixels = images.reshape(shape[0] * shape[1], -1).astype(np.float64)
    pixels -= pixels.mean(0)
    # Ascending, so reversed.
    variances, vectors = np.linalg.eigh(pixels.T @ pixels / len(pixels))
    variances, components = variances[::-1], vectors.T[::-1]
    threshold = variances[0] * max(pixels.shape) * np.finfo(np.float64).eps
    rank = int((variances > threshold).sum())
    if dims > rank:
        raise ValueError(
            f"dims must be at most the rank of the images, {rank}, got {dims}"
        )
    components = components[:dims]
    largest = np.abs(components).argmax(1)
    signs = np.sign(components[np.arange(dims), largest])
    features = pixels @ components.T * (signs / np.sqrt(variances[:dims]))
    return features.astype(np.float32).reshape(shape[0], shape[1], dims)


def make_omniglot(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    size: int = 28,
    scale: float = _SCALE,
    whiten: int | None = None,
    encoder: ConvEncoder | None = None,
) -> tuple[int, ...]:
    """Turns Omniglot's published zips into an HDF5 file for `HDF5Classes`.

    **Arguments:**

    - `paths`, `size`: See `read_omniglot`.
    - `out`: The file to write; an existing one is refused.
    - `scale`: Multiplies the pixels. They are sparse: on the small background sets at
        size 28, their mean square is 0.06, and 0.56 at the default scale.
    - `whiten`: Writes so many whitened principal components (`pca_whiten`) in place of
        pixels. Their variance is one whatever `scale` is.
    - `encoder`: Trains a network on some of the characters and writes its features of
        the others, whose names alone go to `names`. Those of the characters that
        trained it are in the attribute `encoder_trained_on`.

    **Returns:**

    The shape of what was written: the dataset `pixels`, `(class, exemplar, size,
    size)`; `pca`, `(class, exemplar, whiten)`; or `conv`, `(class, exemplar, dim)`.
    """
    if not math.isfinite(scale) or scale <= 0:
        raise ValueError(f"scale must be finite and positive, got {scale!r}")
    if whiten is not None:
        check_integer("whiten", whiten, 1)
    if encoder is not None and (whiten is not None or scale != _SCALE):
        raise ValueError(
            "encoder takes the place of whiten and scale, which must be left out, got "
            f"whiten={whiten}, scale={scale}"
        )
    refuse_target(Path(out))
    names, images = read_omniglot(paths, size=size)
    attributes: dict[str, str | int | float | list[str]] = {
        "origin": "Omniglot: Lake, Salakhutdinov, Tenenbaum (2015), Science 350:1332",
        "licence": "MIT, copyright 2015 Brenden Lake",
        "files": [Path(path).name for path in paths],
        "size": size,
    }
    if encoder is not None:
        path, features = "conv", encoder.encode(images)
        training, encoded = encoder.split(len(names))
        attributes["encoder"] = json.dumps(dataclasses.asdict(encoder))
        attributes["encoder_trained_on"] = [names[k] for k in training]
        attributes["jax"] = jax.__version__
        names = [names[k] for k in encoded]
    elif whiten is not None:
        attributes["whiten"] = whiten
        path, features = "pca", pca_whiten(images, whiten)
    else:
        attributes["scale"] = scale
        path, features = "pixels", images * np.float32(scale)
    write_classes(out, path, features, names, attributes)
    return features.shape


def _characters(path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """The characters of a zip or folder: the name, and the files by drawer."""
    # By folder, as the same character may be there under two.
    folders: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
    for file, content in _files(path):
        match = _DRAWING.fullmatch(file)
        if match is not None:
            number, drawer = match[2], int(match[3])
            folders[file.rpartition("/")[0]].append((number, drawer, content))
    for folder in sorted(folders):
        drawings = sorted(folders[folder])
        name = "/".join(folder.split("/")[-2:])
        numbers = {number for number, _, _ in drawings}
        if len(numbers) > 1:
            raise ValueError(
                f"paths: {name} in {path} mixes characters {', '.join(sorted(numbers))}"
            )
        drawers = [drawer for _, drawer, _ in drawings]
        if drawers != list(range(1, _DRAWERS + 1)):
            raise ValueError(
                f"paths: {name} in {path} must have drawings 1 to {_DRAWERS}, got "
                f"{len(drawers)}: {drawers}"
            )
        yield name, [content for _, _, content in drawings]


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """The drawings in a zip or folder: path, with '/', and content."""
    if path.is_dir():
        # Absolute, for the name of the alphabet if `path` is one.
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
        except _BROKEN_ZIP as error:
            raise ValueError(f"paths: the zip {path} is damaged: {error}") from error


def _decode(name: str, content: bytes, size: int) -> Float32[np.ndarray, "size size"]:
    """A drawing in [0, 1] with ink 1; in the PNGs ink is black."""
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            width, height = image.size
            if width != _SIDE or height != _SIDE:
                raise ValueError(f"it must be {_SIDE}×{_SIDE}, got {width}×{height}")
            ink = 1 - np.asarray(image.convert("L"), np.float32) / 255
    except _BROKEN_PNG as error:
        raise ValueError(f"paths: cannot read a drawing of {name}: {error}") from error
    return np.asarray(Image.fromarray(ink).resize((size, size), Image.Resampling.BOX))
