"""Which entries of a site an edit selects: by the names of axes, as arrays."""

import contextlib
import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool

from ._per_example import NamedTokens, PerExample
from ._site import Site
from .hints import brief, did_you_mean


# Indices; booleans for `mask=`, which are nested lists in a text.
Chosen = int | np.integer | Sequence[Any] | np.ndarray | Array | PerExample


# Not an Equinox module, whose methods take 30 times as long to look up.
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Where:
    """A selection: for some axes, the indices that are selected.

    `indices` maps the names of axes that are chosen together (`"head"`, or
    `"layer head"` for pairs) to the chosen index tuples. `entries` is a mask that
    broadcasts over the site. An entry is selected if every group and the mask select
    it. `layer` is the number in the site's name.
    """

    # JAX rebuilds a tree with leaves of any kind, so these types are not checked.
    # Int[Array, "*sweep choice axis"], PerExample or NamedTokens
    indices: dict[str, Any]
    entries: Any = None  # Bool[Array, "..."] | None

    @staticmethod
    def of(
        heads: str | Sequence[Sequence[int]] | None, axes: Mapping[str, Chosen]
    ) -> "Where":
        """From the keywords of an edit: `heads="1:3 1:7"`, `head=[0, 1]`, `pos=-1`."""
        indices: dict[str, Any] = {}
        axes = dict(axes)
        entries = _booleans(axes.pop("mask", None))
        for axis, chosen in axes.items():
            if (name := canonical(axis)) in indices:
                raise ValueError("pos= and seq= are the same axis; give one")
            if name == "seq" and isinstance(chosen, str):
                indices[name] = NamedTokens.of(chosen)
            elif isinstance(chosen, PerExample):
                indices[name] = chosen
            else:
                indices[name] = whole_numbers(axis, chosen, width=1)
        if heads is not None:
            if clash := {"layer", "head"} & indices.keys():
                raise ValueError(f"heads= already says which {min(clash)}; give one")
            pairs = parse_heads(heads)
            indices["layer head"] = whole_numbers("heads", pairs, width=2)
        return Where(indices, entries)

    def only(self, entries: Bool[Array, "..."]) -> "Where":
        """The selected entries that a mask selects too."""
        both = entries if self.entries is None else entries & self.entries
        return Where(self.indices, both)

    def keywords(self) -> dict[str, Any]:
        """The keywords that `of` would take, in one normal form, for the text form."""
        keywords: dict[str, Any] = {}
        for name, chosen in sorted(self.indices.items()):
            if isinstance(chosen, NamedTokens):
                keywords[name] = chosen.names
            elif not is_concrete(chosen) or chosen.ndim != 2:
                keywords[name.replace(" ", "_")] = chosen
            elif name == "layer head":
                pairs = np.asarray(chosen).tolist()
                keywords["heads"] = " ".join(f"{layer}:{head}" for layer, head in pairs)
            else:
                flat = np.asarray(chosen)[:, 0].tolist()
                keywords[name] = flat[0] if len(flat) == 1 else flat
        if self.entries is not None:
            keywords["mask"] = self.entries
        return keywords

    def mask(self, site: Site) -> Bool[Array, "..."] | None:
        """True at the selected entries, broadcasting over the site; `None`: all."""
        mask = self.entries
        for name, chosen in self.indices.items():
            # Axes: choice, then the site's, of length one unless this group names it.
            hit: Any = True
            if isinstance(chosen, NamedTokens):
                hit = _along(name, chosen, site)[None]
            choices = choices_of(chosen)
            for j, axis in enumerate(name.split() if len(choices) else ()):
                index = choices[:, j].reshape(-1, *[1] * len(site.shape))
                hit = hit & _points_at(axis, index, site)
            group = hit.any(axis=0)
            mask = group if mask is None else mask & group
        return mask

    def within(self, sites: Sequence[Site]) -> tuple[Site, ...]:
        """The sites that are in the selected layers."""
        for name, chosen in self.indices.items():
            if "layer" in (axes := name.split()) and is_concrete(chosen):
                layers = np.asarray(chosen)[..., axes.index("layer")]
                sites = [s for s in sites if "layer" in s.axes or s.layer in layers]
        return tuple(sites)

    def check(self, sites: Sequence[Site]) -> None:
        """Raises `ValueError` for an axis that a site does not have, or a bad index."""
        for site in sites:
            _check_axes([axis for name in self.indices for axis in name.split()], site)
        for name, chosen in self.indices.items():
            axes, chosen = name.split(), choices_of(chosen)
            if is_concrete(chosen):
                here = sites if "layer" in axes else self.within(sites)
                for choice in np.asarray(chosen).reshape(-1, len(axes)).tolist():
                    _check_choice(dict(zip(axes, choice, strict=True)), here)
        if self.entries is not None:
            for site in sites:
                _check_mask(self.entries.shape, site)

    def named_tokens(self) -> tuple[str, ...]:
        """The sites that say which tokens are selected by name."""
        chosen = self.indices.get("seq")
        return chosen.sites() if isinstance(chosen, NamedTokens) else ()

    def with_tokens(self, values: Mapping[str, Array]) -> "Where":
        """The same selection, with tokens found by name."""
        chosen = self.indices["seq"].found(values)
        return Where({**self.indices, "seq": chosen}, self.entries)


def choices_of(chosen: Any) -> Array:
    """Index tuples of one example; of tokens by name, none."""
    if isinstance(chosen, NamedTokens):
        return jnp.zeros((0, 1), jnp.int32)
    return chosen.choices() if isinstance(chosen, PerExample) else chosen


def _along(axis: str, chosen: NamedTokens, site: Site) -> Array:
    place = find_axis(axis, site)
    shape = [size if i == place else 1 for i, size in enumerate(site.shape)]
    return chosen.along(site.shape[place]).reshape(shape)


def parse_heads(heads: str | Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Reads `"1:3 1:7"`, layer:head, 0-based; a list of pairs passes through."""
    pairs = []
    if not isinstance(heads, Iterable):
        wanted = "heads must name layers too, such as heads='1:3'"
        hint = f"for head {heads} of every layer that the site selects, write head="
        raise ValueError(f"{wanted}, got {brief(heads)}; {hint}{brief(heads)}")
    for word in heads.split() if isinstance(heads, str) else heads:
        parts = word.split(":") if isinstance(word, str) else word
        try:
            layer, head = (
                int(part) if isinstance(part, str) else operator.index(part)
                for part in parts
            )
        except (TypeError, ValueError):
            wanted = "heads must be layer:head pairs such as '1:3'"
            hint = ""
            if isinstance(word, int):
                hint = f"; for a head of every layer, write head={word}"
            raise ValueError(f"{wanted}, got {brief(word)}{hint}") from None
        pairs.append((layer, head))
    return pairs


def canonical(axis: str) -> str:
    """The name of an axis; `pos`, as interpretability calls it, is `seq`."""
    return "seq" if axis == "pos" else axis


def axis_size(axis: str, site: Site) -> int:
    """The length of an axis of a site."""
    return site.shape[find_axis(axis, site)]


def find_axis(axis: str, site: Site) -> int:
    """Which axis of a site has this name.

    `unit` is the last axis and `pos` and `seq` stand for each other, unless the site
    has an axis of that very name.

    **Raises:** `ValueError` with the nearest name if there is none.
    """
    alias = {"unit": site.axes[-1:], "seq": ("pos",), "pos": ("seq",)}
    for name in (axis, *alias.get(axis, ())):
        if name in site.axes:
            return site.axes.index(name)
    # Shared keys and values have `kv_head`; by its letters, `d_head` would be as near.
    other = {"head": "kv_head", "kv_head": "head"}.get(axis, "")
    near = [other] if other in site.axes else site.axes
    hint = did_you_mean(axis, near)
    raise ValueError(f"site {site} has no axis {axis!r}{hint}")


def is_concrete(x: Any) -> bool:
    """Whether `x` is an array whose entries are known now, not while tracing."""
    return eqx.is_array(x) and not isinstance(x, Tracer)


def known(x: Any, dtype: Any = None) -> Array:
    """`jnp.asarray`, but concrete even within a `jit`, unless `x` holds tracers.

    Never weakly typed, so that a number and an array share one compiled program.
    """
    now = contextlib.nullcontext if holds_tracer(x) else jax.ensure_compile_time_eval
    with now(), np.errstate(over="ignore"):
        array = jnp.asarray(x, dtype)
        return array.astype(array.dtype) if array.weak_type else array


def holds_tracer(x: Any) -> bool:
    """Whether an entry of a tree is not known yet, while tracing."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(x))


def _points_at(axis: str, index: Any, site: Site) -> Any:
    """Which entries an index means."""
    if axis == "layer" and "layer" not in site.axes:
        return index == site.layer
    i = find_axis(axis, site)
    size = site.shape[i]
    # A leading axis for the choices.
    positions = jnp.arange(size).reshape(
        [1, *(size if j == i else 1 for j in range(len(site.axes)))]
    )
    return jnp.where(index < 0, index + size, index) == positions


def _check_mask(shape: tuple[int, ...], site: Site) -> None:
    pairs = zip(shape, site.shape, strict=False)
    if len(shape) != len(site.shape) or any(a not in (1, b) for a, b in pairs):
        wanted = "each of the site's axes in full or of length one"
        raise ValueError(f"mask= of shape {shape} at {site}; wanted {wanted}")


def _check_axes(axes: Sequence[str], site: Site) -> None:
    named: dict[int, str] = {}
    for axis in axes:
        if axis == "layer" and "layer" not in site.axes and site.layer is not None:
            continue
        place = find_axis(axis, site)
        if place in named:
            both = f"{named[place]}= and {axis}="
            raise ValueError(f"{both} are the same axis of {site}; give one")
        named[place] = axis


def _check_choice(choice: dict[str, int], sites: Sequence[Site]) -> None:
    """One index tuple must select something at some site, and fit where it does."""
    if "layer" in choice and all("layer" not in site.axes for site in sites):
        layer = choice.pop("layer")
        layers = sorted({site.layer for site in sites if site.layer is not None})
        sites = [site for site in sites if site.layer == layer]
        if not sites:
            raise ValueError(
                f"layer {layer} is out of range: the sites are in layers {layers}"
            )
    for site in sites:
        for axis, index in choice.items():
            size = axis_size(axis, site)
            if not -size <= index < size:
                raise ValueError(f"{axis} {index} is out of range at {site}")


def _booleans(mask: Any) -> Array | None:
    if mask is None:
        return None
    array = _array("mask", mask, "an array of booleans")
    if array.dtype != bool:
        raise ValueError(f"mask= is an array of booleans, got {array.dtype}")
    if is_concrete(array) and not array.any():
        raise ValueError("mask= selects nothing")
    return known(array)


def _array(name: str, x: Any, wanted: str) -> Any:
    try:
        return known(x) if holds_tracer(x) else np.asarray(x)
    except ValueError:  # The rows differ in length.
        raise ValueError(f"{name}= takes {wanted}, got {brief(x)}") from None


def whole_numbers(name: str, chosen: Any, width: int = 1) -> Array:
    """Indices along an axis, `[index, width]`; raises `ValueError` for others."""
    array = _array(name, chosen, "whole-number indices")
    if array.size == 0:
        raise ValueError(f"{name}=[] selects nothing")
    if not jnp.issubdtype(array.dtype, jnp.integer):
        hint = did_you_mean(name, ["strength"])
        raise ValueError(
            f"{name}= takes whole-number indices, got {brief(chosen)}{hint}"
        )
    return known(array.reshape(-1, width), jnp.int32)
