"""The values that replays of a run have found, stored in the run's folder."""

import hashlib
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..files import open_hdf5, write_hdf5
from ..runs import disk, Run


_COLUMNS = ("sequences", "digest", "value")
_PACKAGES = ("icl-opto", "jax", "jaxlib")


def text_of(fn: Callable[..., Any], *inputs: PyTree) -> str | None:
    """The text of what a function computes from arrays of these shapes.

    It is the text that the compiler gets. So it has all that a measure, its edits and a
    user's own functions compute, with their constants, and two functions that compute
    the same have one text.

    **Returns:** `None` if the function calls back into Python, which has no text.
    """
    # Without unused arguments, the programs of two weights of one shape look the same.
    text = jax.jit(fn, keep_unused=True).lower(*inputs).as_text()
    names = [
        jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(inputs)
    ]
    return None if "callback" in text else "\n".join([*names, text])


def key_of(text: str, arrays: PyTree) -> str:
    """A digest of a program's text, its arrays, and the versions of the packages."""
    versions = [f"{name} {version(name)}" for name in _PACKAGES]
    found = hashlib.sha256("\n".join([*versions, text]).encode())
    for leaf in jax.tree.leaves(eqx.filter(arrays, eqx.is_array)):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
        found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:32]


class Kept:
    """The values of one measure at the checkpoints where it was taken already.

    They are in a file in `RUN/replays`, whose name is `key_of` what was asked. A value
    is valid if the checkpoint's file has the same digest.
    """

    def __init__(self, run: Run, key: str | None):
        """**Arguments:** `key`: `None` stores nothing."""
        self._run, self._key = run, key
        self._file = run.path / "replays" / f"{key}.h5"
        self._rows = self._read()

    def __contains__(self, checkpoint: int) -> bool:
        digest, _ = self._rows.get(checkpoint, (None, None))
        return digest is not None and digest == self._run.digest(checkpoint)

    def __getitem__(self, checkpoint: int) -> np.ndarray:
        return self._rows[checkpoint][1]

    def add(self, checkpoint: int, digest: str, value: np.ndarray) -> None:
        """Keeps the value at a checkpoint; only in memory until `write`."""
        self._rows[checkpoint] = digest, value

    def write(self, about: Mapping[str, Any]) -> None:
        """Writes the file; warns if it cannot, for example on a read-only disk.

        **Arguments:** `about`: What was asked, in words, for people who open the file.
        """
        if self._key is None:
            return
        order = sorted(self._rows)
        digests, values = zip(*(self._rows[at] for at in order), strict=True)

        def fill(file: h5py.File) -> None:
            file.attrs.update(about)
            file["sequences"] = np.array(order, np.int64)
            text = h5py.string_dtype()
            file.create_dataset("digest", data=digests, dtype=text)
            file["value"] = np.stack(values)

        try:
            with disk(self._file.parent):
                self._file.parent.mkdir(exist_ok=True)
                write_hdf5(self._file, fill, self._key)
        except ValueError as error:
            warnings.warn(f"the replay's values are not stored: {error}", stacklevel=2)

    def _read(self) -> dict[int, tuple[str, np.ndarray]]:
        if self._key is None or not self._file.exists():
            return {}
        try:
            with open_hdf5(self._file, self._key) as file:
                columns = [np.asarray(file[name]) for name in _COLUMNS]
            return {
                int(at): (digest.decode(), np.asarray(value))
                for at, digest, value in zip(*columns, strict=True)
            }
        except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError):
            return {}  # The file is damaged: measure again.
