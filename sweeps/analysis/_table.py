"""Small tables for notebooks and terminals."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from icl.text import aligned


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Numbers are shown with three digits, or four decimals; NaN is a dash, and an
    infinite number is "not reached".

    **Fields:**

    - `columns`: The headings.
    - `rows`: A cell for each column: texts, numbers, `Estimate`s, booleans or `None`.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]] = field(default_factory=tuple)

    def __post_init__(self):
        rows = tuple(tuple(row) for row in self.rows)
        for row in rows:
            if len(row) != len(self.columns):
                wanted = f"{len(self.columns)} cells, one for each column"
                raise ValueError(f"rows: each must have {wanted}, got {row}")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", rows)

    @property
    def texts(self) -> list[list[str]]:
        """The cells as they are shown."""
        return [[cell(value) for value in row] for row in self.rows]

    def __repr__(self) -> str:
        align = "l" + "r" * (len(self.columns) - 1)
        return "\n".join(aligned([self.columns, *self.texts], align))

    def _repr_html_(self) -> str:
        head = _row("th", self.columns)
        body = "".join(_row("td", row) for row in self.texts)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def cell(value: Any) -> str:
    """The text that a table shows for a value."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    if isinstance(value, str):
        return value
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "not reached"
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    if 0.001 <= abs(number) <= 1:  # 0.9999 must not be shown as 1.
        return f"{number:.4f}".rstrip("0").rstrip(".")
    return f"{number:.3g}"


def _row(kind: str, texts: Sequence[str]) -> str:
    first, *rest = (html.escape(text) for text in texts)
    cells = "".join(f"<{kind}>{text}</{kind}>" for text in rest)
    return f'<tr align="right"><{kind} align="left">{first}</{kind}>{cells}</tr>'
