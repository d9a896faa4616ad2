"""Fast reading of many checkpoints with one layout."""

import io
import math
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from .folder import Run


class CheckpointReader:
    """Reads the arrays of a run's checkpoints.

    A file has NumPy arrays one after the other, and all files have the same headers. So
    the start of each array is computed once. A file with other headers is read in the
    slow way, which gives better errors.
    """

    def __init__(self, run: Run, template: PyTree):
        """**Arguments:** `template`: A model of the run's structure."""
        self._run = run
        # NumPy arrays: threads read checkpoints, and no device needs to hold them.
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
    """The bytes before an array in a file that `numpy.save` writes."""
    buffer = io.BytesIO()
    empty = np.lib.format.header_data_from_array_1_0(np.empty(leaf.shape, leaf.dtype))
    np.lib.format.write_array_header_1_0(buffer, empty)
    return buffer.getvalue()
