"""The page about one or two runs, for the server or without one."""

import html
import importlib.resources
import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opto.view import asset, script_json

from ..files import check_page, write_bytes
from ._side import Side


_MARK = '<meta name="generator" content="icl look">'
# A page without a server has at most this many bytes and checkpoints of answers.
_MOST_BYTES, _MOST_CHECKPOINTS = 8_000_000, 40


def page(sides: Sequence[Side], stored: dict[str, Any] | None = None) -> str:
    """The page; `stored` has the answers, where no server gives them."""
    data = {"sides": [side.about() for side in sides], "stored": stored}
    names = " and ".join(side.name for side in sides)
    scripts = [asset("maps.js"), asset("explore.js"), _own("look.js")]
    return string.Template(_own("look.html")).substitute(
        mark=_MARK,
        title=html.escape(names),
        style=asset("maps.css"),
        script="\n".join(scripts),
        data=script_json(data),
    )


def export(sides: Sequence[Side], path: Path) -> Path:
    """Writes a page that needs no server: checkpoints and curves, without more edits.

    **Raises:** `ValueError` for a file that is not such a page.
    """
    check_page("export", path, _MARK)
    stored = {str(k): _answers(side, len(sides)) for k, side in enumerate(sides)}
    write_bytes(path, page(sides, stored).encode())
    return path


def _answers(side: Side, sides: int) -> dict[str, Any]:
    """Answers under the edits in force by checkpoint, spread over the training."""
    known = side.trained.run.checkpoints
    chosen = {"edits": [*range(len(side.edits))]}
    ask = lambda at: side.answer(
        {"set": side.subject.data, "checkpoint": at, "choice": chosen}
    )
    last = ask(known[-1])
    if "wrong" in last:
        raise ValueError(last["wrong"])
    size = len(json.dumps(last))
    most = max(2, min(_MOST_CHECKPOINTS, _MOST_BYTES // (size * sides), len(known)))
    places = {round(k * (len(known) - 1) / (most - 1)) for k in range(most)}
    return {str(known[k]): ask(known[k]) for k in sorted(places)}


def _own(name: str) -> str:
    file = importlib.resources.files("icl.look").joinpath(name)
    return file.read_text(encoding="utf-8")
