"""Folders of Hugging Face: settings, and weights in `safetensors` files."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import save as to_bytes

from ..files import write_bytes
from ._config import read_file


_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"


class StoredArrays(Mapping[str, np.ndarray]):
    """The arrays of a folder by name; each is read when it is asked for."""

    def __init__(self, folder: Path):
        """**Raises:** `ValueError`, in one line, for files that lack or are damaged."""
        opened = _opened(folder)
        self._files = {name: file for file in opened for name in file.keys()}

    def without(self, left_out: Callable[[str], bool]) -> "StoredArrays":
        """Without the arrays of some names, which are not read."""
        kept = copy.copy(self)
        files = self._files.items()
        kept._files = {name: file for name, file in files if not left_out(name)}
        return kept

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._files[name].get_tensor(name)
        except (OSError, safetensors.SafetensorError, TypeError) as error:
            raise ValueError(f"cannot read {name}: {_reason(error)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def write_folder(
    folder: Path, settings: Mapping[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Writes `config.json` and `model.safetensors`, and removes an index of shards.

    **Raises:** `ValueError` if there can be no folder at this path.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"cannot make the folder {folder}: {reason}") from None
    # Hugging Face refuses files without this note.
    write_bytes(folder / _WEIGHTS, to_bytes(arrays, metadata={"format": "pt"}))
    (folder / _INDEX).unlink(missing_ok=True)
    text = json.dumps(settings, indent=2) + "\n"
    write_bytes(folder / "config.json", text.encode())


def _opened(folder: Path) -> list[Any]:
    single, index = folder / _WEIGHTS, folder / _INDEX
    if not index.is_file():
        if not single.is_file():
            found = f"{folder} has neither {_WEIGHTS} nor {_INDEX}"
            if pickled := sorted(path.name for path in folder.glob("*.bin")):
                found += (
                    f", only {pickled[0]}, which may run code when it is read; convert "
                    "it with transformers: from_pretrained(…).save_pretrained(…)"
                )
            raise ValueError(found)
        return [_open(single)]
    where = read_file(index).get("weight_map")
    if not isinstance(where, dict) or not all(map(_is_file_name, where.values())):
        wanted = "weight_map, from the name of an array to that of a file beside it"
        raise ValueError(f"{index} must have a {wanted}")
    if single.is_file():
        # Hugging Face leaves an index behind where one file replaces several.
        if any((folder / name).is_file() for name in {*where.values()} - {_WEIGHTS}):
            raise ValueError(f"{folder} has both {_WEIGHTS} and {_INDEX}: remove one")
        return [_open(single)]
    opened = {name: _open(folder / name) for name in sorted({*where.values()})}
    for name, shard in opened.items():
        wanted = {array for array, file in where.items() if file == name}
        if different := sorted(wanted ^ {*shard.keys()}):
            raise ValueError(f"{folder / name} and {_INDEX} differ in {different[0]}")
    return [*opened.values()]


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and bool(name) and Path(name).name == name


def _open(path: Path) -> Any:
    try:
        # Not mapped into memory: pages of a mapped file count as the process's own.
        return safetensors.safe_open(path, "np", backend="pread")
    except (OSError, safetensors.SafetensorError, TypeError) as error:
        raise ValueError(f"cannot read {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
