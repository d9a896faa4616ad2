"""`icl data`: files of classes."""

import dataclasses
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from opto.hints import did_you_mean

from .. import data as sources
from .options import CommandOptions, parse
from .options.data import ClustersOptions, NAMES, OmniglotOptions, SYNTHETIC


def data(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for an unknown source, and for data that cannot be made.
    """
    if not arguments or arguments[0] not in NAMES:
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
    kind = getattr(sources, SYNTHETIC[name])

    @dataclasses.dataclass(frozen=True)
    class SourceOptions(CommandOptions):
        """Write the classes of a synthetic source to an HDF5 file."""

        USAGE: ClassVar[str] = "--out FILE [options]"
        EXAMPLE: ClassVar[str] = f"icl data {name} --out classes.h5"

        out: Path
        """The file to write; an existing one is refused."""
        source: Annotated[kind, tyro.conf.arg(name="")]  # pyright: ignore

    options = parse(SourceOptions, arguments, f"data {name}")
    print(f"{options.out}: {sources.save_source(options.source, options.out)}")


def _omniglot(options: OmniglotOptions) -> None:
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
