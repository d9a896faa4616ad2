"""`icl plot`: figures of a run, by kind."""

import dataclasses
import hashlib
import re
import sys
from collections.abc import Mapping

import numpy as np

from .. import plots
from ..files import check_writable
from ..report.figures import KINDS, kinds_of
from ..report.grouping import Inapplicable
from .notes import note
from .options import parse
from .options.plot import PlotOptions
from .subject import subject_of


def plot(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a subject or a kind that does not exist, and for a kind
    that was asked for by its name and that the run cannot have.
    """
    options = parse(PlotOptions, arguments, "plot")
    kinds = kinds_of(options.kinds)
    out = options.out or options.run / "figures"
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file; name a folder")
    check_writable(out)
    subject = dataclasses.replace(
        subject_of(options),
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


def _note_undefined(kind: str, drawn: Mapping[str, plots.Quantity]) -> None:
    """Notes which of the numbers beside a figure are not finite."""
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
        parts += [options.data] if options.data else []
        parts += [] if options.training_edits else ["no-training-edits"]
        parts += options.edit
    text = "-".join(parts)
    stem = re.sub(r"[^\w.+-]+", "-", text).strip("-")
    if len(stem) <= 120:
        return stem
    return f"{stem[:110]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
