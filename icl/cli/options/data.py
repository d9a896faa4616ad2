"""The options of `icl data`, by source."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from . import CommandOptions, help_of


SYNTHETIC = {"low-rank": "LowRankClasses", "gaussian": "GaussianClasses"}
"""The classes of `icl.data` by name. They import JAX, so they are named only."""
NAMES = ("omniglot", "clusters", *SYNTHETIC)


@dataclasses.dataclass(frozen=True)
class OmniglotOptions(CommandOptions):
    """Turn Omniglot's published zips into one HDF5 file of classes."""

    USAGE: ClassVar[str] = "ZIP… --out FILE [options]"
    EXAMPLE: ClassVar[str] = (
        "icl data omniglot images_*.zip --encoder conv --out omniglot.h5"
    )

    zips: tyro.conf.Positional[tuple[Path, ...]]
    """The published zips, or folders of the same layout; duplicates are dropped."""
    out: Path
    """The file to write; an existing one is refused."""
    size: int | None = None
    """Pixels on a side, at most 105; 28 if left out. The ResNet reads 105."""
    scale: float = 3.0
    """Multiplies the pixels, which are in [0, 1] with ink 1."""
    whiten: int | None = None
    """Keep so many principal components, each scaled to unit variance."""
    encoder: Literal["pixels", "conv", "resnet18"] = "pixels"
    """What a drawing becomes: its pixels (or, with --whiten, their components); the
    features of a small convolutional network, trained first, which takes a minute (the
    92 characters that train it are left out of the file); or those of a ResNet-18 that
    was trained on photographs (needs torchvision: make EXTRA=resnet)."""
    weights: Path | None = None
    """With --encoder resnet18, the file of its weights: a state_dict of torchvision's,
    .pth or .safetensors. If left out, torchvision downloads those of ImageNet."""
    transforms: Literal["none", "turns", "all"] = "none"
    """Further classes: every character turned by 0, 90, 180 and 270 degrees, and with
    "all", each of these mirrored too. A character's 4 or 8 classes are consecutive."""
    shuffle: int | None = None
    """The seed of a random order of the characters; by name if left out."""


@dataclasses.dataclass(frozen=True)
class ClustersOptions(CommandOptions):
    """Make classes of near neighbours among the rows of a matrix of embeddings."""

    USAGE: ClassVar[str] = "FILE --exemplars N --out FILE [options]"
    EXAMPLE: ClassVar[str] = (
        "icl data clusters embeddings.npy --exemplars 10 --out clusters.h5"
    )

    embeddings: tyro.conf.Positional[Path]
    """A .npy or .safetensors file with a matrix, a row for each token, say."""
    out: Path
    """The file to write; an existing one is refused."""
    exemplars: int
    """The number of rows in each class."""
    classes: int | None = None
    """The number of classes. The default is half as many as the rows would fill."""
    tensor: str = ""
    """The matrix's name in the .safetensors file, if it holds several."""
    metric: Literal["l2", "cosine"] = "l2"
    """What is near: by Euclidean distance, or by the cosine of the angle."""
    seed: int = 0
    """Decides the first centroids and the order of the classes."""


def data_usage() -> str:
    """What `icl data --help` prints."""
    return (
        f"usage: icl data {{{','.join(NAMES)}}} --out FILE.h5 [options]\n\n"
        f"example: {OmniglotOptions.EXAMPLE}"
    )


def show_help(arguments: Sequence[str]) -> bool:
    """Prints the usage or the options of a source, unless those need its class."""
    if not arguments or arguments[0] in SYNTHETIC:
        return False
    known = {"omniglot": OmniglotOptions, "clusters": ClustersOptions}
    if (name := arguments[0]) in known:
        return help_of(known[name], f"data {name}")(arguments)
    print(data_usage())
    return True
