"""Tables of figures that were drawn, and figures of the runs that exist."""

import json
import math
from typing import Any

from icl.plots import DrawnFigure

from ..analysis import Estimate, runs_folder, Study, Table
from ..text import counted
from ._figure import Runs
from ._papers import find_figure
from ._table import NOT_REACHED


def drawn_from(name: str, study: Study) -> DrawnFigure | Table:
    """A figure of a paper, drawn from the finished runs of a study.

    If there are none, a table that says so.
    """
    chosen = find_figure(name)
    found = chosen.found(study.names)
    if not found:
        return Table(("not run", "runs"), [(str(study), name)])
    return chosen.measure(Runs.of(study.path, found)).figure


def table_of(name: str, *, scale: str = "small", file: str = "") -> Table:
    """The numbers and verdicts that `icl figure NAME` stored in the folder of runs.

    If the figure was not drawn at this scale, a table that says so.

    **Arguments:**

    - `file`: The stem of the file, if it is not the figure's own.
    """
    chosen = find_figure(name)
    stem = file or f"{chosen.stem}{f'-{scale}' if chosen.study else ''}"
    path = runs_folder() / "figures" / f"{stem}.json"
    if not path.is_file():
        return Table(("not drawn", "command"), [(name, f"icl figure {name}")])
    found = json.loads(path.read_text())
    seeds = len(found["judged"])
    over = f"ours: {counted(len(found['seeds']), 'seed')}" if found["seeds"] else "ours"
    rows = [_row(row, values) for row, values in found["rows"].items()]
    for claim, told in found["claims"].items():
        in_seeds = f"{told['seeds']} of {counted(told['of'], 'seed')}"
        rows.append((claim, None, in_seeds if seeds else None, told["verdict"]))
    last = ("the figure", None, None, found["verdict"])
    return Table((found["unit"], "paper", over, "verdict"), [*rows, last])


def _row(name: str, values: dict[str, Any]) -> tuple[Any, ...]:
    """A row of the table; a missing number was not reached or not measured."""
    value, low, high = (
        _number(each) for each in (values["value"], *values["interval"])
    )
    found = Estimate(value, low, high, values["reached"], values["seeds"])
    return name, _number(values["target"]), found, values["verdict"]


def _number(value: float | str | None) -> float:
    """Reads a number in the form of the table's file (`_table.as_json`)."""
    if value is None:
        return math.nan
    return math.inf if value == NOT_REACHED else float(value)
