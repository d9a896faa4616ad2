"""Records as a notebook shows them: a table, and attention patterns as pictures."""

import html
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from ._maps import Maps


# At most this many heads of a site are drawn, and pictures up to this many bytes, so
# that a notebook stays readable. `opto.show` draws all.
_MOST_HEADS, _MOST_BYTES = 64, 500_000


def document(values: Mapping[str, tuple[Any, tuple[str, ...] | None]]) -> str:
    """HTML of recorded values, with their axes where these are known."""
    rows, drawn = "", 0
    for name, (value, axes) in values.items():
        picture = _pictures(value, axes) if drawn < _MOST_BYTES else ""
        drawn += len(picture)
        about = html.escape(name), html.escape(dims(value, axes))
        cells = f"<code>{about[0]}</code>", about[1], picture
        rows += "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    head = "<tr><th>site</th><th>value</th><th></th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def dims(value: Any, axes: tuple[str, ...] | None) -> str:
    """The dtype and axes of a recorded value; the axes by name where known."""
    leaves = jax.tree.leaves(value)
    if axes is None or len(leaves) != 1:
        return ", ".join(map(_kind, leaves))
    lead = ("batch",) * (leaves[0].ndim - len(axes))
    pairs = zip(lead + axes, leaves[0].shape, strict=True)
    named = " ".join(f"{axis}={size}" for axis, size in pairs)
    return f"{leaves[0].dtype}[{named}]"


def _kind(leaf: Any) -> str:
    """What a leaf of a reducer's result is; it need not be an array."""
    if not eqx.is_array_like(leaf) or not hasattr(leaf, "dtype"):
        return type(leaf).__name__
    return f"{leaf.dtype}{list(leaf.shape)}"


def _pictures(value: Any, axes: tuple[str, ...] | None) -> str:
    """Pictures of the patterns of the first example, if it is attention."""
    if not axes or axes[-2:] != ("seq", "kv_seq") or isinstance(value, Tracer):
        return ""
    if not value.size:
        return ""
    first = np.asarray(value[(0,) * (value.ndim - len(axes))], np.float32)
    heads = first.reshape(1, -1, *first.shape[-2:])[:, :_MOST_HEADS]
    heads = np.where(np.abs(heads) < 1e9, heads, np.nan)  # Masked scores stay blank.
    names = [f"head {k}" for k in range(heads.shape[1])]
    groups, no = [""] * len(names), [[]]
    return Maps(heads, names, groups, no, no, "query", "key", "").pictures()
