"""Text that commands read and print: JSON and columns."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any


_DEEPEST = 100


class ArraysByShape:
    """The base of dataclasses with `repr=False` that hold results.

    Their `repr` shows arrays by type and shape, as that of a model does.
    """

    def __repr__(self) -> str:
        from equinox import tree_pformat  # Commands that only print need no JAX.

        return tree_pformat(self)


def aligned(rows: Iterable[Sequence[str]], align: str) -> list[str]:
    """Rows as lines, in columns.

    **Arguments:**

    - `align`: One letter per column: `l` for flush left, `r` for right.
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
    """A number as in a table; NaN, such as a constant's correlation, is "undefined"."""
    return "undefined" if math.isnan(value) else format(value, spec)


def read_json(text: str) -> Any:
    """The value of a JSON text.

    **Raises:** `ValueError`, in one line, if the text is not JSON, has a key twice, or
    has more than 100 nested objects and lists. None of our files has so many, and
    Python fails on more.
    """
    too_deep = f"nested more than {_DEEPEST} deep"
    try:
        found = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [found]
    for _ in range(_DEEPEST):
        level = [item for value in level for item in _items(value)]
        if not level:
            return found
    raise ValueError(too_deep)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with each key once; Python would take the last of several."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} stands there twice")
        found[name] = value
    return found


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
