"""Text that commands read and print: JSON and columns."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any


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


def as_text(value: float, spec: str = ".4f") -> str:
    """A number as in a table; NaN, such as a constant's correlation, is "undefined"."""
    return "undefined" if math.isnan(value) else format(value, spec)


def read_json(text: str) -> Any:
    """The value of a JSON text.

    **Raises:** `ValueError`, in one line, if the text is not JSON or has a key twice.
    """
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with each key once; Python would take the last of several."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"{name!r} stands there twice")
        fields[name] = value
    return fields
