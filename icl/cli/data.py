"""`icl data`: files of classes."""

import dataclasses
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from opto.hints import did_you_mean

from .options import CommandOptions, parse


SYNTHETIC = {
    "low-rank": "LowRankClasses",
    "transformed": "TransformedClasses",
    "gaussian": "GaussianClasses",
}
"""The names of the classes in `icl.data`. Importing the classes would import JAX."""
NAMES = ("omniglot", "clusters", *SYNTHETIC)


@dataclasses.dataclass(frozen=True)
class OmniglotOptions(CommandOptions):
    """Turn the published zip files of Omniglot into one HDF5 file of classes."""

    EXAMPLE: ClassVar[str] = (
        "icl data omniglot images_*.zip --encoder conv --out omniglot.h5"
    )

    zips: tyro.conf.Positional[tuple[Path, ...]]
    """The published zips, or folders of the same layout. Duplicates are ignored."""
    out: Path
    """The file to write; it must not exist yet."""
    size: int | None = None
    """Pixels on a side, at most 105. The default is 28. The ResNet reads 105."""
    ink: float = 3.0
    """A factor for the pixels, which are in [0, 1]: the value of ink."""
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

    EXAMPLE: ClassVar[str] = (
        "icl data clusters embeddings.npy --exemplars 10 --out clusters.h5"
    )

    embeddings: tyro.conf.Positional[Path]
    """A .npy or .safetensors file with a matrix, such as one row for each token."""
    out: Path
    """The file to write; it must not exist yet."""
    exemplars: int
    """The number of rows in each class."""
    classes: int | None = None
    """The number of classes. The default is half as many as the rows would fill."""
    tensor: str = ""
    """The matrix's name in the .safetensors file, if it holds several."""
    distance: Literal["l2", "cosine"] = "l2"
    """The distance: Euclidean, or by the cosine of the angle."""
    seed: int = 0
    """The seed for the first centroids and the order of the classes."""


def data(arguments: list[str]) -> None:
    """Runs the command."""
    name, *rest = arguments or [""]
    if name == "omniglot":
        _omniglot(parse(OmniglotOptions, rest, "data omniglot"))
    elif name == "clusters":
        _clusters(parse(ClustersOptions, rest, "data clusters"))
    elif name in SYNTHETIC:
        _synthetic(name, rest)
    elif {"-h", "--help"} & {*arguments}:
        print(f"usage: icl data {{{','.join(NAMES)}}} --out FILE.h5 [options]\n")
        print(f"example: {OmniglotOptions.EXAMPLE}")
    else:
        got = repr(name) if name else "nothing"
        hint = did_you_mean(name, NAMES, cutoff=0.4) or f"; known: {', '.join(NAMES)}"
        raise ValueError(f"data needs the name of a source first, got {got}{hint}")


def _synthetic(name: str, arguments: list[str]) -> None:
    from .. import data as sources

    kind = getattr(sources, SYNTHETIC[name])

    @dataclasses.dataclass(frozen=True)
    class SourceOptions(CommandOptions):
        """Write the classes of a synthetic source to an HDF5 file."""

        EXAMPLE: ClassVar[str] = f"icl data {name} --out classes.h5"

        out: Path
        """The file to write; it must not exist yet."""
        source: Annotated[kind, tyro.conf.arg(name="")]  # pyright: ignore

    options = parse(SourceOptions, arguments, f"data {name}")
    print(f"{options.out}: {sources.save_source(options.source, options.out)}")


def _omniglot(options: OmniglotOptions) -> None:
    from .. import data as sources

    weights = None if options.weights is None else str(options.weights)
    if weights is not None and options.encoder != "resnet18":
        raise ValueError(
            f"weights are only for --encoder resnet18, got --encoder {options.encoder}"
        )
    encoder = None
    if options.encoder == "conv":
        encoder = sources.ConvEncoder()
    elif options.encoder == "resnet18":
        encoder = sources.ResNetEncoder(weights)
    shape = sources.make_omniglot(
        options.zips,
        options.out,
        size=options.size,
        scale=options.ink,
        whiten=options.whiten,
        encoder=encoder,
        symmetries=sources.SYMMETRIES[options.transforms],
        shuffle=options.shuffle,
    )
    print(f"{options.out}: {shape[0]} classes, {shape[1]} exemplars of {shape[2:]}")


def _clusters(options: ClustersOptions) -> None:
    from .. import data as sources

    clusters = sources.NeighbourClusters(
        options.exemplars, options.classes, options.distance, options.seed
    )
    shape = sources.make_clusters(
        options.embeddings, options.out, clusters, tensor=options.tensor
    )
    print(f"{options.out}: {shape[0]} classes, {shape[1]} exemplars of {shape[2:]}")
