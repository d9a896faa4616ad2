"""Text that commands read and print: JSON and columns."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any


_DEEPEST = 100


def aligned(rows: Iterable[Sequence[str]], align: str) -> list[str]:
    """Rows as lines, in columns.

    **Arguments:**

    - `align`: A letter a column: `l` is flush left, `r` right.
    """
    texts = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, align, strict=True)
        ).rstrip()
        for row in texts
    ]


def shortened(text: str, length: int) -> str:
    """The text, without its middle if it has more than `length` characters."""
    if len(text) <= length:
        return text
    half = (length - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def number(value: float, spec: str = ".4f") -> str:
    """A number as a table has it; NaN, such as a constant's correlation, in words."""
    return "undefined" if math.isnan(value) else format(value, spec)


def read_json(text: str) -> Any:
    """The value of a JSON text.

    **Raises:** `ValueError`, in one line, for what is no JSON or is nested in more than
    100 objects and lists: no file of ours is, and Python cannot handle what is deeper.
    """
    too_deep = f"nested more than {_DEEPEST} deep"
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [found]
    for _ in range(_DEEPEST):
        level = [item for value in level for item in _items(value)]
        if not level:
            return found
    raise ValueError(too_deep)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
