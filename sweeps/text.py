"""Text that commands print: tables, lists of names, readable numbers."""

from collections.abc import Collection, Iterable, Sequence

from icl.text import aligned


def some_of(names: Collection[str], most: int = 12) -> str:
    """The first few names, joined for a message."""
    more = ", …" if len(names) > most else ""
    return f"{', '.join(list(names)[:most])}{more}"


def table(rows: Iterable[Sequence[str]], header: Sequence[str], align: str) -> str:
    """The header, a line, and the rows, aligned in columns.

    **Arguments:** `align`: As for `aligned`.
    """
    texts = [[*header], *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    texts.insert(1, ["─" * width for width in widths])
    return "\n".join(aligned(texts, align))


def duration(seconds: float) -> str:
    """A duration as text: `42 s`, `7 min`, `3 h 05 min`, `2 d 4 h`."""
    if seconds < 59.5:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def memory(count: int) -> str:
    """A number of bytes as text: `340 MiB`, `1.2 GiB`."""
    if count < 1000 * 2**20:
        return f"{count / 2**20:.0f} MiB"
    return f"{count / 2**30:.1f} GiB"


NONE = "–"
"""What a table shows for an unknown or missing value."""


def counted(count: int, noun: str) -> str:
    """`1 run`, `12,345 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
