"""Records as a notebook shows them: a table, and attention patterns as pictures."""

import base64
import html
import io
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer


# At most this many heads are drawn, so that a notebook stays readable.
_MOST_HEADS = 64


def document(values: Mapping[str, tuple[Any, tuple[str, ...] | None]]) -> str:
    """HTML of recorded values, with their axes where these are known."""
    rows = "".join(_row(name, value, axes) for name, (value, axes) in values.items())
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


def _row(name: str, value: Any, axes: tuple[str, ...] | None) -> str:
    picture = ""
    if axes and axes[-2:] == ("seq", "kv_seq") and not isinstance(value, Tracer):
        # Shows the first example, unless the value is empty.
        first = (0,) * (value.ndim - len(axes))
        picture = _patterns(np.asarray(value[first], np.float32)) if value.size else ""
    cells = f"<code>{html.escape(name)}</code>", html.escape(dims(value, axes)), picture
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _patterns(heads: np.ndarray) -> str:
    """A picture of each head's pattern: queries down, keys across, darker is more."""
    heads = heads.reshape(-1, *heads.shape[-2:])[:_MOST_HEADS]
    return "".join(_picture(head, i) for i, head in enumerate(heads))


def _picture(pattern: np.ndarray, index: int) -> str:
    from matplotlib import image

    shown = np.where(np.abs(pattern) < 1e9, pattern, np.nan)  # Hides masked scores.
    low, high = min(0.0, np.nanmin(shown, initial=0.0)), np.nanmax(shown, initial=1.0)
    file = io.BytesIO()
    image.imsave(file, shown, vmin=low, vmax=high, cmap="Greys", format="png")
    data = base64.b64encode(file.getvalue()).decode()
    style = "image-rendering:pixelated;width:64px;border:1px solid #999;margin:2px"
    title = f"head {index}: {low:.2g} white, {high:.2g} black"
    return f'<img style="{style}" title="{title}" src="data:image/png;base64,{data}">'
