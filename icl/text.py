"""Text that commands print: columns."""

import math
from collections.abc import Iterable, Sequence


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


def number(value: float, spec: str = ".4f") -> str:
    """A number as a table has it; NaN, such as a constant's correlation, in words."""
    return "undefined" if math.isnan(value) else format(value, spec)
