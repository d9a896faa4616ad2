"""Checkpoints read fast: many files of one layout."""

import dataclasses
import hashlib
import io
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from ..checksums import Checked
from .folder import Run


@dataclasses.dataclass(frozen=True)
class Stamp:
    """What tells whether a file has changed: cheap signs of it, and its content."""

    size: int
    modified: int
    """Nanoseconds."""

    @staticmethod
    def of(file: Path) -> "Stamp":
        """Of a file as it is now; raises `ValueError` if it is not there."""
        try:
            status = file.stat()
        except OSError as error:
            raise ValueError(f"cannot read {file}: {error.strerror}") from None
        return Stamp(status.st_size, status.st_mtime_ns)


def digest(content: bytes | memoryview) -> str:
    """Of some content, such as that of a checkpoint without a checksum."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digest_of(checkpoint: Checked) -> str:
    """Of a checkpoint's content: its checksum if it has one, which is known already."""
    return checkpoint.digest or digest(checkpoint.content)


class CheckpointReader:
    """Reads the arrays of a run's checkpoints.

    They are NumPy arrays one after the other in a file, all with the same headers:
    where each begins is found out once. A file with others is read the slow way, which
    knows what to say of it.
    """

    def __init__(self, run: Run, template: PyTree):
        """**Arguments:** `template`: A model of the run's structure."""
        self._run = run
        # Not of JAX: checkpoints are read in threads, and need not be on a device.
        self._template = jax.tree.map(np.asarray, eqx.filter(template, eqx.is_array))
        leaves, self._structure = jax.tree.flatten(self._template)
        headers, spans, start = [], [], 0
        for leaf in leaves:
            header = _header(leaf)
            start += len(header)
            headers.append((start - len(header), header))
            spans.append((start, leaf.shape, leaf.dtype))
            start += leaf.nbytes
        self._headers, self._spans, self._length = headers, spans, start

    def arrays(self, content: memoryview, checkpoint: int) -> PyTree:
        """The arrays of a checkpoint's content, from `Run.read_checkpoint`."""
        if len(content) != self._length or any(
            content[start : start + len(header)] != header
            for start, header in self._headers
        ):
            return self._run.load(self._template, checkpoint)
        leaves = [
            np.frombuffer(content, dtype, math.prod(shape), start).reshape(shape)
            for start, shape, dtype in self._spans
        ]
        return jax.tree.unflatten(self._structure, leaves)


def _header(leaf: Any) -> bytes:
    """What stands before an array in the file that `numpy.save` writes."""
    buffer = io.BytesIO()
    empty = np.lib.format.header_data_from_array_1_0(np.empty(leaf.shape, leaf.dtype))
    np.lib.format.write_array_header_1_0(buffer, empty)
    return buffer.getvalue()
