"""Files of `torch.save`, read without running what is in them.

Such a file is a zip archive. Its `data.pkl` is a pickle, a program that may call any
function that it can name. This reader knows the few names that tensors in dicts need,
and refuses all others, so that nothing in the file is called.
"""

import dataclasses
import io
import math
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np


_TYPES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": jnp.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


def load_state(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a `state.pt` or `model_<step>.pt`, by name.

    Of a `state.pt` these are the model's, without the optimizer's. No code in the file
    is run.

    **Raises:** `ValueError`, in one line, for a file that is damaged or holds anything
    else than tensors, numbers and texts in dicts and lists, and unless the model's part
    holds only tensors.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            found = _Archive(archive).load()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except zipfile.BadZipFile as error:
        why = "torch.save writes zip archives since version 1.6"
        reason = error if zipfile.is_zipfile(path) else f"{error}; {why}"
        raise ValueError(f"cannot read {path}: {reason}") from None
    except _Refused as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:  # A damaged pickle may raise nearly anything.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"cannot read {path}: damaged ({reason})") from None
    return _parameters(found, path)


def _parameters(found: Any, path: Path) -> dict[str, np.ndarray]:
    if isinstance(found, Mapping):
        found = found.get("model_state_dict", found)
    if not isinstance(found, Mapping) or not found:
        got = type(found).__name__
        raise ValueError(f"{path} must hold tensors by name, got {got}")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            got = f"{type(value).__name__} at {name!r}"
            raise ValueError(f"{path} must hold tensors by name, got {got}")
    return dict(found)


class _Refused(Exception):
    """The file has something that is not supported; the text follows its name."""


@dataclasses.dataclass(frozen=True)
class _StorageType:
    """Stands for a class of torch, which the pickle names but does not call."""

    dtype: np.dtype


class _Archive:
    """The members of an archive, all below one folder."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        roots = [
            name.removesuffix("data.pkl")
            for name in archive.namelist()
            if name.endswith("/data.pkl") and name.count("/") == 1
        ]
        if len(roots) != 1:
            raise _Refused("has no data.pkl, so torch.save did not write it")
        (self._root,) = roots
        self._storages: dict[str, np.ndarray] = {}

    def load(self) -> Any:
        order = f"{self._root}byteorder"
        if order in self._archive.namelist():
            if (found := self._archive.read(order).strip()) != b"little":
                raise _Refused(f"must have little-endian numbers, got {found!r}")
        data = self._archive.read(f"{self._root}data.pkl")
        return _Unpickler(io.BytesIO(data), self).load()

    def storage(self, key: str, dtype: np.dtype, count: int) -> np.ndarray:
        """The numbers of one storage; several tensors may share it."""
        if key not in self._storages:
            data = self._archive.read(f"{self._root}data/{key}")
            if len(data) != count * dtype.itemsize:
                wanted = f"{count * dtype.itemsize} bytes in data/{key}"
                raise _Refused(f"must have {wanted}, got {len(data)}")
            self._storages[key] = np.frombuffer(data, dtype)
        found = self._storages[key]
        if found.dtype != dtype:
            raise _Refused(f"has two types for data/{key}: {found.dtype} and {dtype}")
        return found


class _Unpickler(pickle.Unpickler):
    """Builds dicts, lists, numbers, texts and tensors; calls nothing else."""

    def __init__(self, file: io.BytesIO, archive: _Archive):
        super().__init__(file)
        self._source = archive

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _TYPES:
            return _StorageType(np.dtype(_TYPES[name]))
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return _Tensor()
        if module == "torch._utils" and name == "_rebuild_parameter":
            return _Parameter()
        raise _Refused(f"asks for {module}.{name}, which is no tensor; nothing was run")

    def persistent_load(self, pid: Any) -> np.ndarray:
        what, kind, key, _, count = pid
        if what != "storage" or not isinstance(kind, _StorageType):
            raise _Refused(f"refers to {what!r}, which is no storage")
        if not isinstance(key, str) or not isinstance(count, int):
            raise _Refused("refers to a storage without a name and a size")
        return self._source.storage(key, kind.dtype, count)


class _Tensor:
    """Makes an array from a storage, as torch does from a storage and strides."""

    __slots__ = ()

    def __call__(
        self,
        storage: np.ndarray,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *_: Any,
    ) -> np.ndarray:
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or not all(
            isinstance(x, int) and x >= 0 for x in numbers
        ):
            raise _Refused(f"has a tensor of shape {shape} with strides {strides}")
        # A tensor that repeats numbers could be larger than the memory.
        size = math.prod(shape)
        last = offset + sum(
            (n - 1) * stride for n, stride in zip(shape, strides, strict=True)
        )
        if size and (last >= storage.size or size > storage.size):
            raise _Refused(f"has a tensor of shape {shape} beyond its {storage.size}")
        steps = [stride * storage.itemsize for stride in strides]
        view = np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)
        return np.array(view)


class _Parameter:
    """A trained tensor is the same array."""

    __slots__ = ()

    def __call__(self, data: np.ndarray, *_: Any) -> np.ndarray:
        return data
