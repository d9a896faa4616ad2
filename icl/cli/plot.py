"""`icl plot` and `icl report`: what a run looks like."""

import dataclasses
import hashlib
import math
import re
import sys
from pathlib import Path
from typing import Literal

import tyro

from .. import plots
from ..edits.grafts import read_edits
from ..experiments import load
from ..experiments.sets import check_set
from ..report.figures import KINDS, kinds_of, Subject
from ..report.grouping import Inapplicable
from ..report.page import check_page, write_report
from ..runs import disk
from .options import parse


@dataclasses.dataclass(frozen=True)
class SubjectOptions:
    """Which run, on which sequences, under which edits."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    data: str = ""
    """The evaluation set that is looked at, or dense, every label pair and order of 100
    pairs of classes, or dense:N, of N; the first set if left out."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit in force, besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether the edits that the run was trained under are in force too."""
    threshold: float | None = None
    """A loss in nats: where the set's loss first falls to it, the phase change is
    marked. Half of ln 2, 0.347, in the induction-head paper's figure 5b."""


@dataclasses.dataclass(frozen=True)
class PlotOptions(SubjectOptions):
    """Draw figures of a run; each is a file, with its numbers in another beside it.

    A file is named after the kind and, where they are not the default, the options that
    say what is drawn.
    """

    kinds: tyro.conf.Positional[tuple[str, ...]] = ()
    """What to draw, one or several of the above; all for everything."""
    out: Path | None = None
    """The folder of the figures, made if need be; the default is the run's figures."""
    format: Literal["png", "pdf", "svg"] = "png"
    """Of the figures; pdf and svg for print."""
    numbers: Literal["h5", "csv"] = "h5"
    """The format of the numbers: HDF5, or a tidy table."""
    metric: str = "loss"
    """What metric and similarity draw, such as accuracy or in_context_loss."""
    by: str = ""
    """What metric groups sequences by, where these have labels: position (of the
    answer, the default), label, labels (those
    in the context), class, similarity; of dense also class-pair, label-pair, …"""
    checkpoint: int = -1
    """Sequences seen at the checkpoint that maps draws; -1 is the last."""


@dataclasses.dataclass(frozen=True)
class ReportOptions(SubjectOptions):
    """Write one HTML page about a run, which needs no network and no other file.

    Its config, learning curves, heads over training, and attention patterns at each of
    its checkpoints.
    """

    out: Path | None = None
    """The file; the default is report.html in the run's folder."""


# What tyro shows under --help.
_LISTED = "\n\n".join(f"- {name}: {make.__doc__}" for name, make in KINDS.items())
PlotOptions.__doc__ = f"{PlotOptions.__doc__}\n\n{_LISTED}"


def plot(arguments: list[str]) -> None:
    """The command `icl plot`."""
    options = parse(PlotOptions, arguments, "plot")
    kinds = kinds_of(options.kinds)
    out = options.out or options.run / "figures"
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file; name a folder")
    subject = dataclasses.replace(
        _subject(options),
        metric=options.metric,
        by=options.by,
        checkpoint=options.checkpoint,
    )
    with disk(out):
        out.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for kind in kinds:
        try:
            figure = KINDS[kind](subject)
        except Inapplicable as error:
            if kind in options.kinds:
                raise
            reason = " ".join(str(error).split())
            print(f"{kind}: not drawn, as {reason}", file=sys.stderr)
            continue
        drawn += 1
        path = out / f"{_stem(kind, options)}.{options.format}"
        print(plots.save(figure, path, data=options.numbers))

    if not drawn:
        raise ValueError(f"{options.run}: there is nothing to draw")


def _stem(kind: str, options: PlotOptions) -> str:
    """The name of a figure's file: other figures have other names."""
    parts = [kind]
    if kind in ("metric", "similarity") and options.metric != "loss":
        parts.append(options.metric)
    if kind == "metric" and options.by not in ("", "position"):
        parts.append(f"by-{options.by}")
    if kind == "maps" and options.checkpoint != -1:
        parts.append(f"at-{options.checkpoint}")
    if kind != "learning":
        parts += [options.data] if options.data else []
        parts += [] if options.training_edits else ["no-training-edits"]
        parts += options.edit
    text = "-".join(parts)
    stem = re.sub(r"[^\w.+-]+", "-", text).strip("-")
    if len(stem) <= 120:
        return stem
    return f"{stem[:110]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def report(arguments: list[str]) -> None:
    """The command `icl report`."""
    options = parse(ReportOptions, arguments, "report")
    subject = _subject(options)
    out = options.out or options.run / "report.html"
    check_page(out)
    print(write_report(subject, out))


def _subject(options: SubjectOptions) -> Subject:
    level = options.threshold
    if level is not None and not (math.isfinite(level) and level > 0):
        raise ValueError(f"--threshold must be a loss above 0, in nats, got {level}")
    trained = load(options.run)
    own = trained.edits if options.training_edits else ()
    edits = None
    if options.edit or not options.training_edits:
        edits = (*own, *read_edits(options.edit))
    data = check_set(trained, options.data)
    return Subject(trained, data, edits, threshold=options.threshold)
