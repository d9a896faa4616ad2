"""`icl data`: files of classes."""

import dataclasses
import difflib
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ._options import parse


@dataclasses.dataclass(frozen=True)
class OmniglotOptions:
    """Turn Omniglot's published zips into one HDF5 file of classes."""

    zips: tyro.conf.Positional[tuple[Path, ...]]
    """The published zips, or folders of the same layout; duplicates are dropped."""
    out: Path
    """The file to write; an existing one is refused."""
    size: int = 28
    """Pixels on a side, at most 105."""
    scale: float = 3.0
    """Multiplies the pixels, which are in [0, 1] with ink 1."""
    whiten: int | None = None
    """Keep so many principal components, each scaled to unit variance."""
    encoder: Literal["pixels", "conv"] = "pixels"
    """What a drawing becomes: its pixels (or, with --whiten, their components), or the
    features of a small convolutional network, trained first, which takes a minute. The
    92 characters that train it are left out of the file."""


def data(arguments: list[str]) -> None:
    """The command `icl data`."""
    from . import data as sources

    synthetic = {
        "low-rank": sources.LowRankClasses,
        "gaussian": sources.GaussianClasses,
    }
    names = ("omniglot", *synthetic)
    if not arguments or arguments[0] not in names:
        text = f"usage: icl data {{{','.join(names)}}} --out FILE.h5 [options]"
        if set(arguments) & {"-h", "--help"}:
            print(text)
            return
        given = arguments[0] if arguments else ""
        got = repr(given) if given else "nothing"
        close = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
        raise ValueError(f"data needs the name of a source first, got {got}; {hint}")
    name, *rest = arguments
    if name == "omniglot":
        options = parse(OmniglotOptions, rest, "data omniglot")
        shape = sources.make_omniglot(
            options.zips,
            options.out,
            size=options.size,
            scale=options.scale,
            whiten=options.whiten,
            encoder=sources.ConvEncoder() if options.encoder == "conv" else None,
        )
        print(f"{options.out}: {shape[0]} classes, {shape[1]} exemplars of {shape[2:]}")
        return

    @dataclasses.dataclass(frozen=True)
    class SourceOptions:
        """Write the classes of a synthetic source to an HDF5 file."""

        out: Path
        """The file to write; an existing one is refused."""
        source: Annotated[synthetic[name], tyro.conf.arg(name="")]  # pyright: ignore

    options = parse(SourceOptions, rest, f"data {name}")
    print(f"{options.out}: {sources.save_source(options.source, options.out)}")
