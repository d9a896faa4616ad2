"""`icl data`: files of classes."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from opto.hints import did_you_mean

from .. import data as sources
from .options import parse


@dataclasses.dataclass(frozen=True)
class OmniglotOptions:
    """Turn Omniglot's published zips into one HDF5 file of classes."""

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
class ClustersOptions:
    """Make classes of near neighbours among the rows of a matrix of embeddings."""

    embeddings: tyro.conf.Positional[Path]
    """A .npy or .safetensors file with a matrix, a row for each token, say."""
    out: Path
    """The file to write; an existing one is refused."""
    exemplars: int
    """How many rows each class has."""
    classes: int | None = None
    """How many classes; half as many as the rows would fill if left out."""
    tensor: str = ""
    """The matrix's name in the .safetensors file, if it holds several."""
    metric: Literal["l2", "cosine"] = "l2"
    """What is near: by Euclidean distance, or by the cosine of the angle."""
    seed: int = 0
    """Decides the first centroids and the order of the classes."""


SYNTHETIC = {
    "low-rank": sources.LowRankClasses,
    "gaussian": sources.GaussianClasses,
}
NAMES = ("omniglot", "clusters", *SYNTHETIC)


def data(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for an unknown source, and for what cannot be made.
    """
    if not arguments or arguments[0] not in NAMES:
        text = f"usage: icl data {{{','.join(NAMES)}}} --out FILE.h5 [options]"
        if set(arguments) & {"-h", "--help"}:
            print(text)
            return
        given = arguments[0] if arguments else ""
        got = repr(given) if given else "nothing"
        hint = did_you_mean(given, NAMES, cutoff=0.4) or f"; known: {', '.join(NAMES)}"
        raise ValueError(f"data needs the name of a source first, got {got}{hint}")
    name, *rest = arguments
    if name == "omniglot":
        _omniglot(parse(OmniglotOptions, rest, "data omniglot"))
    elif name == "clusters":
        _clusters(parse(ClustersOptions, rest, "data clusters"))
    else:
        _synthetic(name, rest)


def _synthetic(name: str, arguments: list[str]) -> None:
    @dataclasses.dataclass(frozen=True)
    class SourceOptions:
        """Write the classes of a synthetic source to an HDF5 file."""

        out: Path
        """The file to write; an existing one is refused."""
        source: Annotated[SYNTHETIC[name], tyro.conf.arg(name="")]  # pyright: ignore

    options = parse(SourceOptions, arguments, f"data {name}")
    print(f"{options.out}: {sources.save_source(options.source, options.out)}")


def _omniglot(options: OmniglotOptions) -> None:
    weights = None if options.weights is None else str(options.weights)
    if weights is not None and options.encoder != "resnet18":
        raise ValueError(
            "weights are those of --encoder resnet18, got them with --encoder "
            f"{options.encoder}"
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
        scale=options.scale,
        whiten=options.whiten,
        encoder=encoder,
        symmetries=sources.SYMMETRIES[options.transforms],
        shuffle=options.shuffle,
    )
    print(f"{options.out}: {shape[0]} classes, {shape[1]} exemplars of {shape[2:]}")


def _clusters(options: ClustersOptions) -> None:
    clusters = sources.NeighbourClusters(
        options.exemplars, options.classes, options.metric, options.seed
    )
    shape = sources.make_clusters(
        options.embeddings, options.out, clusters, tensor=options.tensor
    )
    print(f"{options.out}: {shape[0]} classes, {shape[1]} exemplars of {shape[2:]}")
