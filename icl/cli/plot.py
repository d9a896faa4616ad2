"""`icl plot`: figures of a run, by kind."""

import dataclasses
import hashlib
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, TYPE_CHECKING

import tyro

from ..text import aligned
from .options import MarkedOptions, parse
from .report import marked_subject
from .results import check_folder, note


if TYPE_CHECKING:
    from ..plots import Quantity


@dataclasses.dataclass(frozen=True)
class PlotOptions(MarkedOptions):
    """Draw figures of a run, each to a file, with its numbers in a file beside it.

    A file's name is the kind of figure, followed by the options that differ from the
    default.
    """

    EXAMPLE: ClassVar[str] = "icl plot runs/demo learning maps"

    kinds: tyro.conf.Positional[tuple[str, ...]] = ()
    """The kinds of figure to draw, or all. Without this, the command lists them."""
    out: Path | None = None
    """The folder for the figures. The default is figures in the run's folder."""
    format: Literal["png", "pdf", "svg"] = "png"
    """The format of the figures; pdf and svg are for print."""
    numbers: Literal["h5", "csv"] = "h5"
    """The format of the numbers: an HDF5 file, or a table."""
    metric: str = "loss"
    """The metric for the kinds metric and similarity, such as accuracy or
    in_context_loss."""
    by: str = ""
    """How the kind metric groups sequences with labels: by position (of the answer; the
    default), label, labels (those in the context), class or similarity; with dense also
    by class-pair, label-pair, …"""
    checkpoint: int = -1
    """The checkpoint for the kind maps, as the number of sequences seen; -1 is the
    last."""


def plot(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(PlotOptions, arguments, "plot")
    from .. import plots
    from ..report.figures import KINDS, kinds_of
    from ..report.grouping import Inapplicable

    if not options.kinds:
        about = {kind: inspect.getdoc(make) or "" for kind, make in KINDS.items()}
        rows = [(kind, text.splitlines()[0]) for kind, text in about.items()]
        print("\n".join(aligned(rows, "ll")))
        raise ValueError("plot needs a kind of figure after the run, or all")
    kinds = kinds_of(options.kinds)
    out = options.out or options.run / "figures"
    check_folder(out)
    subject = dataclasses.replace(
        marked_subject(options),
        metric=options.metric,
        by=options.by,
        checkpoint=options.checkpoint,
    )
    out.mkdir(parents=True, exist_ok=True)
    drawn = False
    for kind in kinds:
        try:
            figure = KINDS[kind](subject)
        except (Inapplicable, plots.TooManyGroups) as error:
            if kind in options.kinds:
                raise
            reason = " ".join(str(error).split())
            print(f"{kind}: not drawn, as {reason}", file=sys.stderr)
            continue
        drawn = True
        _note_undefined(kind, figure.drawn)
        path = out / f"{_stem(kind, options)}.{options.format}"
        print(plots.save(figure, path, data=options.numbers))
    if not drawn:
        raise ValueError(f"{options.run}: there is nothing to draw")


def _note_undefined(kind: str, drawn: "Mapping[str, Quantity]") -> None:
    """Notes which of the numbers beside a figure are not finite."""
    import numpy as np

    for name, quantity in drawn.items():
        if quantity.values.dtype.kind != "f":
            continue
        wrong = int((~np.isfinite(quantity.values)).sum())
        if wrong:
            count = f"{wrong} of {quantity.values.size} values of {name}"
            note("plot", f"{kind}: {count} are undefined, or of nothing there")


def _stem(kind: str, options: PlotOptions) -> str:
    """The name of a figure's file, which differs between figures."""
    parts = [kind]
    if kind in ("metric", "similarity") and options.metric != "loss":
        parts.append(options.metric)
    if kind == "metric" and options.by not in ("", "position"):
        parts.append(f"by-{options.by}")
    if kind == "maps" and options.checkpoint != -1:
        parts.append(f"at-{options.checkpoint}")
    if kind != "learning":
        parts += [options.on] if options.on else []
        parts += [] if options.training_edits else ["no-training-edits"]
        parts += options.edit
    text = "-".join(parts)
    stem = re.sub(r"[^\w.+-]+", "-", text).strip("-")
    if len(stem) <= 120:
        return stem
    return f"{stem[:110]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
