"""Omniglot as a file of classes."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float32

from ..checks import check_scale, positive
from ._conv import ConvEncoder
from ._hdf5 import refuse_target, write_classes
from ._resnet import encode_drawings, ResNetEncoder
from ._symmetry import check_symmetries, class_names, Symmetry
from .omniglot import read_omniglot, SIDE


_SIZE = 28
_SCALE = 3.0
Attributes = Mapping[str, str | int | float | Sequence[str]]


def make_omniglot(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    size: int | None = None,
    scale: float = _SCALE,
    whiten: int | None = None,
    encoder: ConvEncoder | ResNetEncoder | None = None,
    symmetries: Sequence[Symmetry] = (Symmetry(),),
    shuffle: int | None = None,
) -> tuple[int, ...]:
    """Turns Omniglot's published zips into an HDF5 file for `HDF5Classes`.

    **Arguments:**

    - `paths`, `symmetries`, `shuffle`: See `read_omniglot`.
    - `out`: The file to write; it must not exist yet.
    - `size`: See `read_omniglot`; 28 if `None`. It must be `None` for a
        `ResNetEncoder`, which reads the drawings as published.
    - `scale`: The factor on the pixels. Most of these are 0: on the small background
        sets at size 28, their mean square is 0.06, and 0.56 at the default scale.
    - `whiten`: Writes this many whitened principal components (`pca_whiten`) instead of
        pixels. Their variance is one for any `scale`.
    - `encoder`: Writes features instead of pixels. A `ConvEncoder` trains on some of
        the characters; the others are written, under all symmetries. The attribute
        `encoder_trained_on` has the characters that trained it.

    **Returns:**

    The shape of the written dataset: `pixels`, `(class, exemplar, size, size)`; `pca`,
    `(class, exemplar, whiten)`; `conv`, `(class, exemplar, dim)`; or `resnet18`,
    `(class, exemplar, 512)`. With `n` symmetries, class `k` is character `k // n`, and
    its name includes the symmetry.
    """
    check_scale("scale", scale)
    if encoder is not None and (whiten is not None or scale != _SCALE):
        raise ValueError(
            "encoder replaces whiten and scale, so leave them out, got "
            f"whiten={whiten}, scale={scale}"
        )
    if isinstance(encoder, ResNetEncoder) and size is not None:
        raise ValueError(
            f"size must be left out, because the ResNet reads the published "
            f"{SIDE}×{SIDE} pixels, got {size}"
        )
    refuse_target(Path(out))
    check_symmetries(symmetries)
    if isinstance(encoder, ResNetEncoder):
        path, size = "resnet18", SIDE
        names, features, made = _resnet(encoder, paths, symmetries, shuffle)
    else:
        size = _SIZE if size is None else size
        names, images = read_omniglot(
            paths, size=size, symmetries=symmetries, shuffle=shuffle
        )
        if encoder is not None:
            path = "conv"
            names, features, made = _conv(encoder, names, images, len(symmetries))
        elif whiten is not None:
            path, features = "pca", pca_whiten(images, whiten)
            made = {"whiten": whiten}
        else:
            path, features = "pixels", images * np.float32(scale)
            made = {"scale": scale}
    attributes = {
        "origin": "Omniglot: Lake, Salakhutdinov, Tenenbaum (2015), Science 350:1332",
        "licence": "MIT, copyright 2015 Brenden Lake",
        "files": [Path(file).name for file in paths],
        "size": size,
        "symmetries": len(symmetries),
        "order": "by name" if shuffle is None else f"shuffled with seed {shuffle}",
        **made,
    }
    write_classes(out, path, features, names, attributes)
    return features.shape


def pca_whiten(
    images: Float32[np.ndarray, "class exemplar height width"], dims: int
) -> Float32[np.ndarray, "class exemplar dims"]:
    """Projects images on their leading principal components, with unit variance.

    The pixels are centred and projected on the eigenvectors of their covariance with
    the largest eigenvalues. Each projection is divided by its standard deviation. Mean
    and covariance are over all given images: all classes and exemplars, even those that
    are held out later. The divisor is n, so the mean square of each feature is 1. The
    sign of a component makes its largest entry positive.

    **Arguments:**

    - `dims`: How many components; at most the rank of the centred images.
    """
    positive("dims", dims)
    shape = images.shape
    pixels = images.reshape(shape[0] * shape[1], -1).astype(np.float64)
    pixels -= pixels.mean(0)
    # `eigh` sorts ascending; reverse it.
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


def _resnet(
    encoder: ResNetEncoder,
    paths: Sequence[str | os.PathLike[str]],
    symmetries: Sequence[Symmetry],
    shuffle: int | None,
) -> tuple[list[str], Float32[np.ndarray, "class exemplar dim"], Attributes]:
    """The names and features of the classes, and the attributes of the dataset."""
    network, made = encoder.load(), encoder.attributes()
    names, images = read_omniglot(paths, size=SIDE, shuffle=shuffle)
    features = encode_drawings(network, images, symmetries)
    return class_names(names, symmetries), features, made


def _conv(
    encoder: ConvEncoder,
    names: Sequence[str],
    images: Float32[np.ndarray, "class exemplar size size"],
    symmetries: int,
) -> tuple[list[str], Float32[np.ndarray, "encoded exemplar dim"], Attributes]:
    """The same as `_resnet`, for the characters that did not train the network."""
    characters = [names[k : k + symmetries] for k in range(0, len(names), symmetries)]
    training, encoded = encoder.split(len(characters))
    features = encoder.encode(images, symmetries)
    made = {
        "encoder": json.dumps(dataclasses.asdict(encoder)),
        "encoder_trained_on": [characters[k][0] for k in training],
        "jax": jax.__version__,
    }
    return [name for k in encoded for name in characters[k]], features, made
