"""Saves figures as files, with the numbers they show beside them."""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from opto.hints import did_you_mean

from ..files import write_bytes
from ._drawn import DrawnFigure, write_drawn
from ._style import style


# Leave out the date, so that equal figures give equal files.
_FORMATS: dict[str, dict[str, None]] = {
    ".png": {},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}


def save(
    figure: Figure, path: str | os.PathLike, *, data: Literal["h5", "csv"] = "h5"
) -> Path:
    """Writes a figure and its data file; each file whole or not at all.

    The data of `name.pdf` are in `name.h5`, which `read_drawn` reads, or in `name.csv`.
    Figures that are not from `icl.plots` have no data file.

    **Arguments:**

    - `path`: The file of the figure. Its suffix gives the format: png, pdf or svg. Its
        folder must exist.
    - `data`: `"h5"` for HDF5, `"csv"` for a tidy table.

    **Raises:** `ValueError` for another suffix, for a folder that does not exist, and
    if the data would replace a file that is not a figure's data; `OSError` if a file
    cannot be written.
    """
    path = Path(path)
    if not isinstance(figure, Figure):
        kind = type(figure).__name__
        raise ValueError(f"figure must be a matplotlib Figure, got {kind}")
    check_path(path)
    if data not in ("h5", "csv"):
        raise ValueError(f"data must be 'h5' or 'csv', got {data!r}")
    buffer = io.BytesIO()
    with style(), _laid_out(figure):
        metadata = _FORMATS[path.suffix]
        figure.savefig(buffer, format=path.suffix[1:], metadata=metadata)
    # Write the data first, so that nobody finds a picture without its data.
    if isinstance(figure, DrawnFigure) and figure.drawn:
        write_drawn(figure.drawn, path.with_suffix(f".{data}"))
    write_bytes(path, buffer.getbuffer())
    return path


@contextlib.contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Lays out the figure before it is saved.

    In vector formats matplotlib would otherwise draw the figure twice, and drawing the
    picture of thousands of traces takes nearly all the time.
    """
    figure.draw_without_rendering()
    engine = figure.get_layout_engine()
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        if engine is not None:
            figure.set_layout_engine(engine)


def check_path(path: Path) -> None:
    """Raises `ValueError` if a figure cannot be written to this path."""
    if path.suffix not in _FORMATS:
        hint = did_you_mean(path.suffix.lower(), _FORMATS)
        wanted = ", ".join(_FORMATS)
        raise ValueError(
            f"path: a figure's file ends in {wanted}, got {path.name!r}{hint}"
        )
    if not path.parent.is_dir():
        raise ValueError(f"path: there is no folder {path.parent} for {path.name}")
    if path.is_dir():
        raise ValueError(f"path: {path} is a folder")
