"""The numbers that a figure shows, as named arrays that are stored with it."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from ..files import hdf5_kind, open_hdf5, write_bytes, write_hdf5


@dataclass(frozen=True)
class Quantity:
    """An array with the names and the coordinates of its axes.

    **Fields:**

    - `values`: Numbers or strings.
    - `axes`: For each axis of `values`, its name and a coordinate for each index, such
        as sequences seen, the number of a head, or the name of a set.
    - `label`: What the array is, with its unit.
    """

    values: np.ndarray
    axes: Mapping[str, np.ndarray] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self):
        values = np.asarray(self.values)
        axes = {name: np.asarray(where) for name, where in self.axes.items()}
        wanted = tuple(len(where) for where in axes.values())
        if values.shape != wanted:
            text = ", ".join(f"{name}={len(where)}" for name, where in axes.items())
            raise ValueError(f"axes have lengths [{text}], values have {values.shape}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "axes", axes)


PLAIN: dict[Any, Any] = {"text.parse_math": False}
"""Settings of Matplotlib by which `$` in a text is a `$`, and begins no formula."""

# Notebooks are committed with their pictures.
_NOTEBOOK_DPI = 168
_NOTEBOOK_COLOURS = 64

Drawn = Mapping[str, Quantity]
"""The quantities of a figure by name; `a/b` is `b` in the panel `a`."""


def joined(*parts: str) -> str:
    """The name of a quantity from those of its panel and its group."""
    return "/".join(part for part in parts if part)


class DrawnFigure(Figure):
    """A Matplotlib figure that keeps what it shows, for `save` to write beside it.

    **Attributes:** `drawn`: The quantities by name.
    """

    drawn: Drawn

    def __init__(self, drawn: Drawn | None = None, **options: Any):
        super().__init__(**options)
        self.drawn = {} if drawn is None else drawn

    def draw(self, renderer: Any) -> None:
        """Draws the figure, without formulas even in texts made only now (ticks)."""
        with mpl.rc_context(PLAIN):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        """The picture that a notebook shows: a small file with few colours."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_NOTEBOOK_DPI)
        # This method also keeps the colours of thin lines; the median cut mixes them.
        method = Image.Quantize.MAXCOVERAGE
        image = Image.open(buffer).convert("RGB").quantize(_NOTEBOOK_COLOURS, method)
        small = io.BytesIO()
        image.save(small, format="png", optimize=True)
        return small.getvalue()


def write_drawn(drawn: Drawn, path: Path) -> None:
    """Writes quantities to a file, HDF5 or CSV by its suffix.

    In HDF5 a quantity is a group with `values` and a dimension scale for each axis. In
    CSV each entry has a row, with the name of its quantity and its coordinate on each
    axis; axes that the quantity does not have are empty.

    **Raises:** `ValueError` if the path holds a file that this function did not write.
    """
    _check_ours(path)
    if path.suffix == ".csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(_rows(drawn))
        write_bytes(path, text.getvalue().encode())
    else:
        write_hdf5(path, lambda file: _fill(file, drawn))


def read_drawn(path: str | Path) -> dict[str, Quantity]:
    """Reads the numbers that a figure shows, from the HDF5 file beside the figure.

    **Raises:** `ValueError` if the file is not one that `save` wrote.
    """
    found: dict[str, Quantity] = {}
    try:
        with open_hdf5(path) as file:
            if file.attrs.get("kind") != _KIND:
                raise ValueError("save did not write this file")
            for name in map(str, np.asarray(file.attrs["quantities"])):
                found[name] = _read(file[name])
    except (OSError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a figure's data: {reason}") from None
    return found


_KIND = "what a figure of icl.plots shows"
_COLUMN = "quantity"


def _fill(file: h5py.File, drawn: Drawn) -> None:
    file.attrs["kind"] = _KIND
    file.attrs["quantities"] = [*drawn]
    for name, quantity in drawn.items():
        group = file.create_group(name)
        group.attrs["label"] = quantity.label
        group.attrs["axes"] = [*quantity.axes]
        values = _store(group, "values", quantity.values)
        for index, (axis, where) in enumerate(quantity.axes.items()):
            scale = _store(group, axis, where)
            scale.make_scale(axis)
            values.dims[index].attach_scale(scale)
            values.dims[index].label = axis


def _store(group: h5py.Group, name: str, values: np.ndarray) -> h5py.Dataset:
    if values.dtype.kind in "UO":
        kind = h5py.string_dtype()
        return group.create_dataset(name, data=values.astype(object), dtype=kind)
    packing = "gzip" if values.size > 1024 else None
    return group.create_dataset(name, data=values, compression=packing)


def _read(group: Any) -> Quantity:
    axes = {str(axis): _array(group[axis]) for axis in group.attrs["axes"]}
    return Quantity(_array(group["values"]), axes, str(group.attrs["label"]))


def _array(data: Any) -> np.ndarray:
    if h5py.check_string_dtype(data.dtype) is None:
        return np.asarray(data[()])
    return np.asarray(data.asstr()[()], str)


def _rows(drawn: Drawn) -> Iterator[Sequence[Any]]:
    names = list(dict.fromkeys(axis for q in drawn.values() for axis in q.axes))
    yield [_COLUMN, *names, "value"]
    for name, quantity in drawn.items():
        columns = [
            [*quantity.axes].index(axis) if axis in quantity.axes else None
            for axis in names
        ]
        coordinates = [where.tolist() for where in quantity.axes.values()]
        for index, value in np.ndenumerate(quantity.values):
            at = ["" if k is None else coordinates[k][index[k]] for k in columns]
            yield [name, *at, value]


def _check_ours(path: Path) -> None:
    """Raises `ValueError` if something else wrote the file, such as a run's log."""
    if not path.exists():
        return
    if path.suffix == ".csv":
        with open(path, newline="", errors="replace") as file:
            ours = file.readline().startswith(f"{_COLUMN},")
    else:
        ours = hdf5_kind(path) == _KIND
    if not ours:
        raise ValueError(
            f"{path} is in the way of a figure's data; save the figure under another "
            "name"
        )
