"""The options of `icl data`, by source."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from . import CommandOptions, help_of


SYNTHETIC = {"low-rank": "LowRankClasses", "gaussian": "GaussianClasses"}
"""The names of the classes in `icl.data`. Importing the classes would import JAX."""
NAMES = ("omniglot", "clusters", *SYNTHETIC)


@dataclasses.dataclass(frozen=True)
class OmniglotOptions(CommandOptions):
    """Turn the published zip files of Omniglot into one HDF5 file of classes."""

    USAGE: ClassVar[str] = "ZIP… --out FILE [options]"
    EXAMPLE: ClassVar[str] = (
        "icl data omniglot images_*.zip --encoder conv --out omniglot.h5"
    )

    zips: tyro.conf.Positional[tuple[Path, ...]]
    """The published zips, or folders of the same layout. Duplicates are ignored."""
    out: Path
    """The file to write; an existing one is refused."""
    size: int | None = None
    """Pixels on a side, at most 105. The default is 28. The ResNet reads 105."""
    scale: float = 3.0
    """A factor for the pixels, which are in [0, 1]; ink is 1."""
    whiten: int | None = None
    """The number of principal components to keep, each scaled to unit variance. The
    default keeps the pixels."""
    encoder: Literal["pixels", "conv", "resnet18"] = "pixels"
    """What becomes of a drawing. pixels: its pixels, or their principal components with
    --whiten. conv: features of a small convolutional network, which is trained first.
    This takes a minute, and the 92 characters that train it are not in the file.
    resnet18: features of a ResNet-18 that was trained on photographs (needs
    torchvision: make EXTRA=resnet)."""
    weights: Path | None = None
    """The weights for --encoder resnet18: a state_dict of torchvision in a .pth or
    .safetensors file. By default torchvision downloads the ImageNet weights."""
    transforms: Literal["none", "turns", "all"] = "none"
    """More classes from each character. turns: rotated by 0, 90, 180 and 270 degrees.
    all: each of these mirrored, too. The 4 or 8 classes of a character are
    consecutive."""
    shuffle: int | None = None
    """A seed to order the characters at random. The default is the order of names."""


@dataclasses.dataclass(frozen=True)
class ClustersOptions(CommandOptions):
    """Cluster the rows of an embedding matrix into classes of near neighbours."""

    USAGE: ClassVar[str] = "FILE --exemplars N --out FILE [options]"
    EXAMPLE: ClassVar[str] = (
        "icl data clusters embeddings.npy --exemplars 10 --out clusters.h5"
    )

    embeddings: tyro.conf.Positional[Path]
    """A .npy or .safetensors file with a matrix, such as one row for each token."""
    out: Path
    """The file to write; an existing one is refused."""
    exemplars: int
    """The number of rows in each class."""
    classes: int | None = None
    """The number of classes. The default is half as many as the rows would fill."""
    tensor: str = ""
    """The matrix's name in the .safetensors file, if it holds several."""
    metric: Literal["l2", "cosine"] = "l2"
    """The distance: Euclidean, or by the cosine of the angle."""
    seed: int = 0
    """The seed for the first centroids and the order of the classes."""


def data_usage() -> str:
    """What `icl data --help` prints."""
    return (
        f"usage: icl data {{{','.join(NAMES)}}} --out FILE.h5 [options]\n\n"
        f"example: {OmniglotOptions.EXAMPLE}"
    )


def show_help(arguments: Sequence[str]) -> bool:
    """Prints the usage, or the options of a source; `False` if it printed nothing.

    It prints nothing without arguments. For a synthetic source, the options need the
    source's class.
    """
    if not arguments or arguments[0] in SYNTHETIC:
        return False
    known = {"omniglot": OmniglotOptions, "clusters": ClustersOptions}
    if (name := arguments[0]) in known:
        return help_of(known[name], f"data {name}")(arguments)
    print(data_usage())
    return True
