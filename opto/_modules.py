"""Calls of Equinox modules that mark the values within them: attention and norms."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ._tap import Rows


Marked = Callable[..., Any]
"""`mark(name, value, axes, rows=None)`, of a site of the module if someone asks."""


def attention(
    module: eqx.nn.MultiheadAttention,
    mark: Marked,
    wants: Callable[[str], bool],
    query: Any,
    key_: Any,
    value: Any,
    mask: Any = None,
    *,
    key: Any = None,
    inference: bool | None = None,
    deterministic: bool | None = None,
    process_heads: Any = None,
) -> Any:
    """`eqx.nn.MultiheadAttention`, with its arguments; heads come first at its sites.

    `scores` are masked with the least number of their dtype, as in Equinox. `pattern`
    is before dropout. `result` is what each head writes; `out` has the bias, too.
    """
    inference = inference if deterministic is None else deterministic
    projections = (module.query_proj, module.key_proj, module.value_proj)
    pairs = zip(projections, (query, key_, value), strict=True)
    heads = [_by_head(project, x, module.num_heads) for project, x in pairs]
    if process_heads is not None:  # It wants heads in the middle.
        turned = process_heads(*(jnp.moveaxis(x, 0, 1) for x in heads))
        heads = [jnp.moveaxis(x, 1, 0) for x in turned]
    q, k, v = (
        mark(name, x, "head seq d_head") for name, x in zip("qkv", heads, strict=True)
    )
    scores = jnp.einsum("hsd,hSd->hsS", q / math.sqrt(q.shape[-1]), k)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    scores = mark("scores", scores, _ATTENDS, Rows("logits", "softmax"))
    wide = jnp.promote_types(scores.dtype, jnp.float32)
    pattern = jax.nn.softmax(scores.astype(wide)).astype(scores.dtype)
    pattern = mark("pattern", pattern, _ATTENDS, Rows("distribution", "softmax"))
    keys = None if key is None else jax.random.split(key, module.num_heads)
    drop = lambda x, key: module.dropout(x, key=key, inference=inference)
    weights = jax.vmap(drop)(pattern, keys)
    z = mark("z", jnp.einsum("hsS,hSd->hsd", weights, v), "head seq d_head")
    weight = module.output_proj.weight.reshape(-1, module.num_heads, z.shape[-1])
    if wants("result"):
        result = jnp.einsum("mhd,hsd->hsm", weight, z)
        out = mark("result", result, "head seq d_model").sum(0)
    else:
        out = jnp.einsum("mhd,hsd->sm", weight, z)
    bias = module.output_proj.bias
    return out if bias is None else out + bias


def _by_head(project: eqx.nn.Linear, x: Any, heads: int) -> Any:
    weight = project.weight.reshape(heads, -1, x.shape[-1])
    out = jnp.einsum("hdm,sm->hsd", weight, x)
    return out if project.bias is None else out + project.bias.reshape(heads, 1, -1)


_ATTENDS = "head seq kv_seq"


def layer_norm(
    module: eqx.nn.LayerNorm, mark: Marked, wants: Any, x: Any, *rest: Any, **keys: Any
) -> Any:
    """`eqx.nn.LayerNorm`; `scale`, √(variance + ε), divides the values."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - wide.mean(keepdims=True)
    return _scaled(module, mark, x, centred, rest)


def rms_norm(
    module: eqx.nn.RMSNorm, mark: Marked, wants: Any, x: Any, *rest: Any, **keys: Any
) -> Any:
    """`eqx.nn.RMSNorm`; `scale`, √(mean square + ε), divides the values."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return _scaled(module, mark, x, wide, rest)


def _scaled(module: Any, mark: Marked, x: Any, values: Any, rest: Any) -> Any:
    if x.shape != module.shape:
        kind = type(module).__name__
        raise ValueError(f"{kind} of shape {module.shape} got the shape {x.shape}")
    scale = jnp.sqrt((values**2).mean() + module.eps)
    out = values / mark("scale", scale)
    out = out if module.weight is None else module.weight.astype(out.dtype) * out
    out = out if module.bias is None else out + module.bias.astype(out.dtype)
    out = out.astype(x.dtype)
    return (out, *rest) if rest else out


WITHIN: dict[type, tuple[tuple[str, ...], Callable[..., Any]]] = {
    eqx.nn.MultiheadAttention: (
        ("q", "k", "v", "scores", "pattern", "z", "result"),
        attention,
    ),
    eqx.nn.LayerNorm: (("scale",), layer_norm),
    eqx.nn.RMSNorm: (("scale",), rms_norm),
}
"""By module: the sites within it, beside its output, and the call that marks them."""
