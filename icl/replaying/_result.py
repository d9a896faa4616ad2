"""The result of a replay, in memory and in a file."""

import dataclasses
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..files import check_writable, hdf5_kind, open_hdf5, write_hdf5
from ..text import ArraysByShape


_MARK = "icl-opto replay"


@dataclasses.dataclass(frozen=True, repr=False)
class Replay(ArraysByShape):
    """Measures at some checkpoints of a run; `replay["name"]` is an array.

    **Attributes:**

    - `sequences`: Sequences seen at each checkpoint, `[checkpoint]`; see `seen`.
    - `values`: For each measure, by name, `[checkpoint, ...]`.
    - `axes`: For each measure, the names of its axes: `"checkpoint layer head"`.
    - `labels`: For each measure, its label on the axis of a figure.
    - `seen`: What `sequences` counts: sequences seen, or training steps.
    """

    sequences: np.ndarray
    values: Mapping[str, np.ndarray]
    axes: Mapping[str, str]
    labels: Mapping[str, str]
    seen: str = "sequences seen"

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` of the measures; needs the extra `xarray`.

        Its dimensions are the axes, and `checkpoint` has the sequences seen. An axis
        that has another size in another measure gets its measure's name in front.
        """
        xarray = importlib.import_module("xarray")  # Only the extra installs it.
        sizes: dict[str, set[int]] = {}
        for name, value in self.values.items():
            for axis, size in zip(self.axes[name].split(), value.shape, strict=True):
                sizes.setdefault(axis, set()).add(size)

        def variable(name: str, value: np.ndarray) -> tuple[Any, ...]:
            axes = [
                axis if len(sizes[axis]) == 1 else f"{name}_{axis}"
                for axis in self.axes[name].split()
            ]
            return axes, value, {"long_name": self.labels[name]}

        variables = {name: variable(name, x) for name, x in self.values.items()}
        at = "checkpoint", self.sequences, {"long_name": self.seen}
        return xarray.Dataset(variables, {"checkpoint": at})

    def save(self, file: str | os.PathLike, **about: str) -> None:
        """Writes `sequences` and each measure to an HDF5 file, whole or not at all.

        **Arguments:** `about`: Attributes of the file.

        **Raises:** `ValueError` if `file` exists and is not a replay.
        """
        check_replay_file(Path(file))

        def fill(opened: h5py.File) -> None:
            opened.attrs.update({**about, "kind": _MARK})
            opened["sequences"] = self.sequences
            opened["sequences"].attrs["axes"] = "checkpoint"
            opened["sequences"].attrs["label"] = self.seen
            for name, value in self.values.items():
                opened[f"measures/{name}"] = value
                attributes = opened[f"measures/{name}"].attrs
                attributes["axes"] = self.axes[name]
                attributes["label"] = self.labels[name]

        write_hdf5(Path(file), fill)

    @staticmethod
    def read(file: str | os.PathLike) -> "Replay":
        """Reads what `save` wrote; raises `ValueError` for any other file."""
        try:
            with open_hdf5(file) as opened:
                found: Any = opened["measures"]
                return Replay(
                    np.asarray(opened["sequences"]),
                    {name: np.asarray(found[name]) for name in found},
                    {name: found[name].attrs["axes"] for name in found},
                    {name: found[name].attrs["label"] for name in found},
                    opened["sequences"].attrs.get("label", "sequences seen"),
                )
        except (OSError, KeyError) as error:
            raise ValueError(f"{file} is not a replay: {error}") from None


def check_replay_file(file: Path) -> None:
    """Raises `ValueError` unless a replay may be written there."""
    if file.suffix != ".h5":
        raise ValueError(f"out: {file} must end in .h5")
    if not file.parent.is_dir():
        raise ValueError(f"out: there is no folder {file.parent}")
    check_writable(file.parent)
    if file.exists() and hdf5_kind(file) != _MARK:
        raise ValueError(f"out: {file} exists and is not a replay; name another file")
