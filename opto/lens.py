"""The logit lens, and what each part of a model adds to the logits.

The lens (nostalgebraist 2020, "interpreting GPT: the logit lens") reads the residual
stream of a layer as if the layer were the last. Direct logit attribution splits the
final stream into what the embedding, each head and each MLP wrote, and takes each part
through the final norm and the unembedding: the direct paths of Elhage et al. 2021, "A
Mathematical Framework for Transformer Circuits".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._check_edits import as_edits
from ._checks import whole
from ._edit import AbstractEdit
from ._record import Record
from ._reference import Patch
from ._run import run
from ._site import Site, Sites
from ._sweep import checked_table
from ._where import is_concrete
from .graft import Graft, swapped
from .hints import brief


def logit_lens(
    model: Callable[..., Any],
    *inputs: Any,
    sites: str | Iterable[str] = "**.resid_post",
    into: str = "final.in",
    read: str = "logits",
    edits: Sequence[AbstractEdit] = (),
) -> tuple[Float[Array, "site ..."], tuple[str, ...]]:
    """The logits if the residual stream at a site entered the final norm.

    One compiled call serves all sites. The logits are NaN if an edit cannot apply to
    the inputs.

    **Arguments:**

    - `model`, `inputs`: As for `opto.run`; one example or a batch.
    - `sites`: Where the stream is read, names or globs.
    - `into`: The site of what enters the final norm; it takes the values.
    - `read`: The site of the logits.
    - `edits`: In force throughout, also after `into`.

    **Returns:**

    A tuple of the values at `read`, `[site, *batch, …]`, and the names of the sites in
    the order of computation.

    **Raises:** `ValueError` as `opto.run`, for sites that differ from `into` in shape,
    and if `read` comes before `into`.
    """
    model, inputs, edits = swapped(model, inputs, as_edits(edits))
    table = checked_table(model, inputs, edits)
    target, logits = _single("into", into, table), _single("read", read, table)
    if list(table).index(logits.name) <= list(table).index(target.name):
        raise ValueError(f"read={read!r} is computed before into={into!r}")
    found = _matching([sites] if isinstance(sites, str) else list(sites), table)
    for site in found:
        if site.shape != target.shape:
            raise ValueError(f"sites must have the shape of {target}, got {site}")
    names = tuple(site.name for site in found)
    return _lens(model, inputs, edits, names, target.name, logits.name), names


@eqx.filter_jit
def _lens(model, inputs, edits, names, into, read) -> Array:
    _, record = run(model, *inputs, record=names, edits=edits)

    def one(stream: Array) -> Array:
        # What comes before the patch is the same for all sites, so it is computed once.
        patch = Patch(into, {into: stream})
        return run(model, *inputs, record=read, edits=[*edits, patch])[1][read]

    return jax.vmap(one)(jnp.stack([record[name] for name in names]))


_MLPS = "**.mlp.out"


def logit_terms(
    model: Callable[..., Any],
    *inputs: Any,
    norm: eqx.Module | None = None,
    unembed: eqx.Module | None = None,
    embed: str = "embed",
    heads: str = "**.attn.result",
    mlps: str = _MLPS,
    stream: str = "final.in",
    neurons: Mapping[str, Float[Array, "d_model unit"]] | None = None,
    top: int | None = None,
    edits: Sequence[AbstractEdit] = (),
) -> tuple[Float[Array, "term ..."], tuple[str, ...]]:
    """What each part of a model adds to its logits directly, not through other parts.

    The terms sum to the site `logits`, unless an edit changes what comes after
    `stream`. In the order of computation they are `"embed"` (with positions),
    `"0:3"` for head 3 of layer 0, `"mlp 0"`; then `"mlp 0:7"` for neuron 7 of layer
    0, if asked for; then `"rest"`, everything else in the stream, such as output
    biases and what an edit put into the stream; and last `"bias"`, `logit_bias`.

    **Arguments:**

    - `model`, `inputs`: As for `opto.run`; one example or a batch.
    - `norm`, `unembed`: The model's, as for `direct_logits`; `model.final_norm` and
        `model.unembed` by default.
    - `embed`, `heads`, `mlps`: The sites of what is added to the stream, `[seq,
        d_model]`; the sites of heads also have an axis `head`. There may be no MLPs.
    - `stream`: The site of what enters the final norm.
    - `neurons`: By the site of an MLP's activations, the matrix that takes them to the
        stream: `{"blocks.0.mlp.post": model.blocks[0].mlp.contract.weight}`. Their
        terms are taken out of that of their MLP.
    - `top`: Only so many neurons of each MLP, those whose terms have the largest root
        mean square over all tokens and labels; all by default.
    - `edits`: In force; the terms are those of the edited run.

    **Returns:**

    A tuple of the terms, `[term, *batch, seq, label]`, and their names.

    **Raises:** `ValueError` as `opto.run`, if `norm` or `unembed` does not fit, for
    sites that are not of the stream's axes, for attention that mixes its heads, for an
    `opto.Graft`, and for logits that are more than that, such as capped ones.
    """
    norm = _part(model, "norm", norm, "final_norm")
    unembed = _part(model, "unembed", unembed, "unembed")
    edits = as_edits(edits)
    if any(isinstance(edit, Graft) for edit in edits):
        why = "what the grafted model writes is not recorded"
        raise ValueError(f"edits of logit_terms cannot have a Graft: {why}")
    table = checked_table(model, inputs, edits)
    if why := table.not_additive(heads):
        raise ValueError(f"logit_terms: heads={brief(heads)}: {why}")
    parts = [_single("embed", embed, table), *table.match(heads)]
    if mlps != _MLPS:
        table.match(mlps)
    parts += [site for site in table.values() if site.matches(mlps)]
    order = list(table)
    parts.sort(key=lambda site: order.index(site.name))
    end = _single("stream", stream, table)
    final = end.name
    for site in parts:
        if tuple(axis for axis in site.axes if axis != "head") != end.axes:
            wanted = f"what is added to {end}, with an axis 'head' or without"
            raise ValueError(f"logit_terms takes {wanted}; got {site}")
    matrices = {_single("neurons", x, table): w for x, w in (neurons or {}).items()}
    names = [site.name for site in (*parts, *matrices)]
    changed = {name for edit in edits for name in edit.changes(table)}
    after = order[order.index(final) + 1 :]
    read = ["logits"] if "logits" in table and changed.isdisjoint(after) else []
    _, record = run(model, *inputs, record=[*names, final, *read], edits=edits)
    named = [term for site in parts for term in _written(site, record, embed)]
    divisor = _divisor(norm, record[final])
    for site, weight in matrices.items():
        values = record[site.name]
        reached = _centred(norm, weight.T) @ _weight(unembed, None).T
        chosen = _largest(values / divisor, reached, top)
        units = [
            (f"mlp {site.layer}:{n}", values[..., n, None] * weight[:, n])
            for n in chosen
        ]
        taken = sum(x for _, x in units)
        named = [(n, x - taken if n == f"mlp {site.layer}" else x) for n, x in named]
        named += units
    written = jnp.stack([value for _, value in named])
    rest = record[final] - jnp.sum(written, 0)
    terms = direct_logits(
        jnp.concatenate([written, rest[None]]), record[final], norm, unembed
    )
    bias = jnp.broadcast_to(logit_bias(norm, unembed), terms.shape[1:])
    labels = (*(name for name, _ in named), "rest", "bias")
    terms = jnp.concatenate([terms, bias[None]])
    for name in read:
        _check_sum(terms, record[name])
    return terms, labels


def _check_sum(terms: Array, logits: Array) -> None:
    """Raises `ValueError` if a model does more after its stream than norm and read."""
    if not is_concrete(terms) or logits.shape != terms.shape[1:]:
        return
    apart = jnp.abs(jnp.sum(terms, 0) - logits)
    size = jnp.abs(terms).sum(0).max()
    if (apart > _ROUNDING[logits.dtype.itemsize] * size).any():
        raise ValueError(
            "the terms do not sum to the logits, to which the model does more than "
            f"norm and unembed, such as a cap: they differ by {apart.max():.3g}"
        )


# How far sums may be from each other, beside the size of all that is added.
_ROUNDING = {2: 0.02, 4: 1e-4, 8: 1e-6}


def direct_logits(
    term: Float[Array, "*terms d_model"],
    stream: Float[Array, "*examples d_model"],
    norm: eqx.Module,
    unembed: eqx.Module,
) -> Float[Array, "*logits label"]:
    r"""What a part of the residual stream adds to the logits.

    $W_U \operatorname{diag}(g)\,(t - \bar t) / \sigma(x)$ for a LayerNorm with scale
    $g$: the norm is linear once its standard deviation is held at that of the whole
    stream $x$. The result is linear in the term $t$; for $t = x$, it and `logit_bias`
    sum to the logits.

    **Arguments:**

    - `term`: One summand of the stream, or several; broadcasts with `stream`.
    - `stream`: What entered the norm.
    - `norm`: `eqx.nn.LayerNorm`, `eqx.nn.Identity`, or an RMSNorm: `eqx.nn.RMSNorm` or
        a module with its `weight` and `eps`, perhaps with an `offset` to the weight.
    - `unembed`: Has a `weight`, `[label, d_model]`, such as `eqx.nn.Linear`.

    **Raises:** `ValueError` for another kind of norm, and for shapes that do not fit.
    """
    weight = _weight(unembed, stream.shape[-1])
    if term.shape[-1:] != stream.shape[-1:]:
        got = f"{term.shape} for a stream of {stream.shape}"
        raise ValueError(f"term must be a summand of the stream, got {got}")
    return _centred(norm, term / _divisor(norm, stream)) @ weight.T


def _divisor(norm: eqx.Module, stream: Array) -> Array:
    """What a norm divides each token of the stream by."""
    if isinstance(norm, eqx.nn.Identity):
        return jnp.ones((), stream.dtype)
    weight: Any = getattr(norm, "weight", None)
    eps: Any = getattr(norm, "eps", None)
    plain = isinstance(norm, eqx.nn.LayerNorm | eqx.nn.RMSNorm)
    if eps is None or not (plain or eqx.is_array(weight)):
        known = "a LayerNorm, an RMSNorm or an Identity"
        raise ValueError(f"norm must be {known}, got {type(norm).__name__}")
    shape = norm.shape if plain else np.shape(weight)
    if shape != stream.shape[-1:]:
        wanted = f"a norm of d_model={stream.shape[-1]}"
        raise ValueError(f"norm must be {wanted}, got one of shape {shape}")
    # In 32 bits or more: in 16, squares overflow.
    wide = stream.astype(jnp.promote_types(stream.dtype, jnp.float32))
    if isinstance(norm, eqx.nn.LayerNorm):
        wide = wide - jnp.mean(wide, -1, keepdims=True)
    return jnp.sqrt(jnp.mean(wide**2, -1, keepdims=True) + eps)


def _centred(norm: Any, term: Array) -> Array:
    """A term after the norm, but for the division and the offset."""
    if isinstance(norm, eqx.nn.LayerNorm):
        term = term - jnp.mean(term, -1, keepdims=True)
    weight = getattr(norm, "weight", None)
    if weight is None:
        return term
    return term * (getattr(norm, "offset", 0.0) + weight)


def _largest(values: Array, reached: Array, top: int | None) -> list[int]:
    """The units with the largest `values[token, unit] * reached[unit, label]`."""
    power = jnp.mean(values**2, range(values.ndim - 1)) * jnp.mean(reached**2, -1)
    count = len(reached) if top is None else whole("top", top, 1)
    return sorted(np.argsort(-np.asarray(power), kind="stable")[:count].tolist())


def logit_bias(norm: eqx.Module, unembed: eqx.Module) -> Float[Array, " label"]:
    """The logits of a zero stream: the unembedded offset of the norm, plus the bias."""
    weight = _weight(unembed, None)
    bias = jnp.zeros(weight.shape[:1], weight.dtype)
    offset, own = (getattr(layer, "bias", None) for layer in (norm, unembed))
    if offset is not None:
        bias = bias + weight @ offset
    return bias if own is None else bias + own


def _weight(unembed: eqx.Module, d_model: int | None) -> Array:
    weight: Any = getattr(unembed, "weight", None)
    if not eqx.is_array(weight) or weight.ndim != 2:
        kind = type(unembed).__name__
        raise ValueError(f"unembed must have a weight [label, d_model], got {kind}")
    if d_model not in (None, weight.shape[1]):
        got = f"a weight of shape {weight.shape}"
        raise ValueError(f"unembed must read d_model={d_model}, got {got}")
    return jnp.asarray(weight)


def _written(site: Site, record: Record, embed: str) -> list[tuple[str, Array]]:
    """The terms that a site holds, with their names."""
    value = record[site.name]
    if site.name == embed:
        return [("embed", value)]
    if "head" not in site.axes:
        return [(f"mlp {site.layer}", value)]
    axis = value.ndim - len(site.shape) + site.axes.index("head")
    heads = jnp.moveaxis(value, axis, 0)
    return [(f"{site.layer}:{head}", heads[head]) for head in range(len(heads))]


def _part(
    model: Callable[..., Any], name: str, given: eqx.Module | None, attribute: str
) -> eqx.Module:
    """The module that was given, or the model's attribute."""
    found = getattr(model, attribute, None) if given is None else given
    if not isinstance(found, eqx.Module):
        has = f"{type(model).__name__} has no module {attribute!r}"
        raise ValueError(f"{name} must be an eqx.Module, got {brief(found)}; {has}")
    return found


def _single(argument: str, name: str, table: Sites) -> Site:
    found = table.match(name)
    if len(found) != 1:
        raise ValueError(f"{argument} must be one site, got {len(found)}: {name!r}")
    (site,) = found
    return site


def _matching(patterns: Sequence[str], table: Sites) -> tuple[Site, ...]:
    names = {site.name for pattern in patterns for site in table.match(pattern)}
    if not names:
        raise ValueError("sites must name at least one site, got none")
    return tuple(table[name] for name in table if name in names)
