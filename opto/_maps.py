"""Maps of numbers over tokens, as pictures that answer and that stand still."""

import base64
import dataclasses
import hashlib
import html
import importlib.resources
import io
import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


# At most this many numbers are in a page, and bytes of them.
_MOST_NUMBERS, _MOST_BYTES = 1_600_000, 1_150_000
MOST_EXAMPLES = 16
_MOST_TOKENS = 128
# The pictures for readers without JavaScript: pixels wide, and their number.
_SMALL, _MOST_SMALL = 32, 256
_STYLE = "width:56px;image-rendering:pixelated;border:1px solid #999"


@dataclasses.dataclass(frozen=True)
class Maps:
    """Numbers by example, map, row and column, with their names.

    **Fields:**

    - `values`: `[example, map, row, column]`; not finite where there is none.
    - `names`, `groups`: Of each map, such as `0:3` and `layer 0`.
    - `rows`, `columns`: By example, the names of rows and columns.
    - `row`, `column`: What these are, such as `query` and `key`.
    - `label`: What the numbers are.
    - `words`: By example, map, row and column, a text to show with the number.
    """

    values: np.ndarray
    names: Sequence[str]
    groups: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: Sequence[Sequence[str]]
    row: str
    column: str
    label: str
    words: Sequence[Any] | None = None

    def data(self) -> dict[str, Any]:
        """What the script draws.

        Maps of more than 128 rows or columns, or that do not fit, are made smaller: a
        cell shows the largest of several numbers. Numbers are rounded to 16 bits, or to
        8 if there are many.
        """
        whole = self.values[:MOST_EXAMPLES]
        whole = whole[: max(1, _MOST_NUMBERS // whole[0].size)]
        count, step = len(whole), max(1, -(-max(whole.shape[2:]) // _MOST_TOKENS))
        while whole[:, :, ::step, ::step].size > _MOST_NUMBERS:
            step += 1
        while True:
            values = _largest(whole, step)
            wide = values.size * 2 <= _MOST_BYTES / 2
            codes, low, high = _codes(values, np.uint16 if wide else np.uint8)
            packed = _base64(zlib.compress(codes.tobytes(), 9))
            if len(packed) <= _MOST_BYTES or max(values.shape[2:]) == 1:
                break
            step += 1
        return {
            "shape": values.shape,
            "wide": wide,
            "low": low,
            "high": high,
            "step": step,
            "values": packed,
            "names": self.names,
            "groups": self.groups,
            "rows": _named(self.rows[:count], step),
            "columns": _named(self.columns[:count], step),
            "row": self.row,
            "column": self.column,
            "label": self.label,
            "words": None if self.words is None else self.words[:count],
            "colours": _colours(low),
            "examples": len(self.values),
        }

    def pictures(self) -> str:
        """Small pictures of the first example."""
        return "".join(self._still())

    def html(self) -> str:
        """The pictures, and the script that makes them answer."""
        data = script_json(self.data())
        name = "opto-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        start = f"start(document.querySelectorAll('#{name}'), {data})"
        return (
            f'<div id="{name}" class="opto-maps">{self.pictures()}</div>'
            f"<style>{asset('maps.css')}</style>"
            f"<script>(() => {{\n{asset('maps.js')}\n{start};\n}})();</script>"
        )

    def _still(self) -> Iterator[str]:
        first = self.values[:1, :_MOST_SMALL]
        low, high = _limits(first)
        if self.label:
            yield f"<p>{html.escape(self._told(low, high))}</p>"
        small = _largest(first, max(1, -(-max(first.shape[2:]) // _SMALL)))[0]
        maps = zip(self.groups, self.names, small, strict=False)
        for group, members in itertools.groupby(maps, lambda each: each[0]):
            yield '<div class="opto-row">'
            for _, name, values in members:
                about = html.escape(f"{group}, {name}" if group else name, quote=True)
                source = f"data:image/png;base64,{_png(values, low, high)}"
                given = f'alt="{about}" title="{about}" src="{source}"'
                yield f'<img style="{_STYLE}" {given}>'
            yield "</div>"

    def _told(self, low: float, high: float) -> str:
        """How to read the small pictures."""
        ends = f"white is {low:.3g}, dark {high:.3g}"
        if low < 0:
            ends = f"red is above 0 and blue below, up to {high:.3g}"
        told = f"{self.label}: {ends}; {self.row} down, {self.column} across."
        if len(self.values) > 1 or len(self.names) > _MOST_SMALL:
            told += f" The first example; at most {_MOST_SMALL} maps."
        return told


def asset(name: str) -> str:
    """A script or style of `opto/view`."""
    file = importlib.resources.files("opto.view").joinpath(name)
    return file.read_text(encoding="utf-8")


def script_json(data: Any) -> str:
    """JSON that can stand in a script: no text of it ends the script."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _largest(values: np.ndarray, step: int) -> np.ndarray:
    """Of each square of `step` rows and columns, the number of the largest size."""
    values = np.where(np.isfinite(values), values, np.nan).astype(np.float32)
    if step == 1:
        return values
    pad = [(0, 0), (0, 0), *((0, -size % step) for size in values.shape[2:])]
    values = np.pad(values, pad, constant_values=np.nan)
    rows, columns = (size // step for size in values.shape[2:])
    parts = values.reshape(*values.shape[:2], rows, step, columns, step)
    parts = parts.swapaxes(3, 4).reshape(*values.shape[:2], rows, columns, -1)
    sizes = np.where(np.isnan(parts), -1, np.abs(parts))
    return np.take_along_axis(parts, sizes.argmax(-1)[..., None], -1)[..., 0]


def _limits(values: np.ndarray) -> tuple[float, float]:
    """The ends of the scale: 0 and the largest, or as far below 0 as above."""
    finite = values[np.isfinite(values)]
    most = float(np.abs(finite).max(initial=0)) or 1.0
    if finite.min(initial=0) < 0:
        return -most, most
    # Distributions share a scale, so that maps can be compared.
    return 0.0, 1.0 if 0.5 < most <= 1 else most


def _codes(
    values: np.ndarray, dtype: type, limits: tuple[float, float] | None = None
) -> tuple[np.ndarray, float, float]:
    """Numbers from 1 to the largest of a dtype; 0 where there is none."""
    low, high = limits or _limits(values)
    steps = np.iinfo(dtype).max - 1
    share = np.nan_to_num((values - low) / (high - low), nan=0.0)
    codes = (1 + np.rint(share * steps)).astype(dtype)
    return np.where(np.isnan(values), 0, codes).astype(dtype), low, high


def _map(low: float) -> Any:
    import matplotlib as mpl  # A tenth of a second, for who draws.

    return mpl.colormaps["RdBu_r" if low < 0 else "Blues"]


def _colours(low: float) -> list[list[int]]:
    return (255 * _map(low)(np.linspace(0, 1, 33))[:, :3]).round().astype(int).tolist()


def _png(values: np.ndarray, low: float, high: float) -> str:
    """A picture of 255 colours, which keep the order of the numbers."""
    from PIL import Image

    codes, *_ = _codes(values, np.uint8, (low, high))
    picture = Image.fromarray(codes)
    colours = _map(low)(np.linspace(0, 1, 255))[:, :3]
    palette = np.concatenate([np.ones((1, 3)), colours])  # White where none is.
    picture.putpalette((255 * palette).round().astype(np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "png", optimize=True)
    return _base64(file.getvalue())


def _named(names: Sequence[Sequence[str]], step: int) -> list[list[str]]:
    if step == 1:
        return [[*row] for row in names]
    ranges = lambda row: range(0, len(row), step)
    return [
        [f"{k} to {min(k + step, len(row)) - 1}" for k in ranges(row)] for row in names
    ]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
