"""Edits: values that say what to change at which sites."""

import abc
import dataclasses
import inspect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ._checks import named
from ._flat import Flat
from ._literal import literal, Written
from ._site import Site, Sites
from ._swept import AbstractSwept, Each
from ._where import Chosen, holds_tracer, is_concrete, known, Where
from .hints import brief


Heads = str | Sequence[Sequence[int]] | None

# Structures of edits, each with a site that its new values fit.
_FITTING: set[tuple[Hashable, Site]] = set()


class AbstractEdit(Written, eqx.Module):
    """Whatever `edits=` takes: an `Edit` of sites, or a `Derived` one."""

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments for the text form, in the constructor's order.

        Excludes the selection, the strength and an `Edit`'s site. The first argument of
        the text form has no name if it is `site` or `kind` and may be positional.
        """

    @abc.abstractmethod
    def check(self, table: Sites) -> None:
        """Raises `ValueError` if this edit cannot apply to a model with these sites."""

    def changes(self, table: Sites) -> tuple[str, ...]:
        """The names of the sites that this edit changes; empty if it cannot say."""
        if not isinstance(self, Selection):
            return ()
        return tuple(s.name for s in self.where.within(table.match(self.site)))

    def replaces_until(self, table: Sites) -> str | None:
        """The last site of the first part of the run, if this edit replaces it all."""
        return None

    def text(self, most: int | None = None) -> str:
        own = {"site": self.site} if isinstance(self, Edit) else {}
        own |= self.arguments()
        keywords = {**own, **_selection(self)}
        parts = [f"{name}={literal(value, most)}" for name, value in keywords.items()]
        first, value = next(iter(own.items()), ("", None))
        if first in ("site", "kind") and not _by_name_alone(type(self), first):
            parts[0] = literal(value, most)
        return f"{type(self).__name__}({', '.join(parts)})"


class Selection(eqx.Module):
    """Some entries of the sites that match a pattern."""

    site: str = eqx.field(static=True)
    where: Where

    def each(self, *axes: str) -> Each:
        """This edit or selection once for each index of `axes`, for `opto.sweep`.

        `Zero("blocks.*.attn.z").each("layer", "head")` is every head by itself;
        `Zero("blocks.*.attn.z", head=[0, 2]).each("head")` is head 0, then head 2.
        """
        return Each(self, axes)


class At(Written, Selection):
    """A selection of entries, such as the senders of a `PathPatch`."""

    def __init__(self, site: str, *, heads: Heads = None, **where: Chosen):
        """**Arguments:** `site`, `heads`, `where`: as for `opto.Clamp`."""
        self.site = named("site", site)
        self.where = Where.of(heads, where)

    def check(self, table: Sites) -> None:
        """Raises `ValueError` if there is no such site or entry."""
        self.where.check(table.match(self.site))

    def text(self, most: int | None = None) -> str:
        parts = [repr(self.site)]
        parts += [f"{k}={literal(v, most)}" for k, v in self.where.keywords().items()]
        return f"At({', '.join(parts)})"


class Edit(AbstractEdit, Selection):
    """What to change at the sites that match a pattern.

    A subclass gives the new values (`replacement`). The selection (`where`) and the
    `strength` work the same way in all edits. The site pattern and the names of axes
    are static. Indices, values and strengths are arrays, so edits that differ only in
    those share one compiled program. A subclass with arguments of its own sets them as
    fields in its `__init__`, after `super().__init__(site, **where)`.

    `edit.text()` is the text form that `opto.parse` reads back. `repr` is the same, but
    shows arrays of over 100 numbers by type, shape and a digest.
    """

    strength: Float[Array, "..."]

    def __init__(
        self,
        site: str,
        *,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:** `site`, `strength`, `heads`, `where`: as for `opto.Clamp`."""
        select(self, site, strength, heads, where)

    def arguments(self) -> dict[str, Any]:
        """The fields of a subclass, by their names."""
        shared = {field.name for field in dataclasses.fields(Edit)}
        own = (f.name for f in dataclasses.fields(self) if f.name not in shared)
        return {name: getattr(self, name) for name in own}

    @abc.abstractmethod
    def replacement(self, value: Array, site: Site) -> Array:
        """The new values at a site, before selection.

        A number, or an array with the site's axes, each in full or of length one.
        """

    def __call__(self, value: Array, site: Site) -> Array:
        """The edited value: `(1 - strength) * value + strength * replacement`.

        Both ends are exact: strength 0 gives `value`, strength 1 the replacement (to
        the bit without jit; compiled, to rounding). An entry is not blended if either
        is not finite: it keeps its value below strength 1 and takes the new one at 1.
        """
        new = jnp.asarray(self.replacement(value, site)).astype(value.dtype)
        mixed = blend(value, new, self.strength)
        mask = self.where.mask(site)
        return mixed if mask is None else jnp.where(mask, mixed, value)

    def check(self, table: Sites) -> None:
        """Raises `ValueError` if this edit cannot apply at all the sites it names."""
        sites = table.match(self.site)
        self.where.check(sites)
        check_strength(self.strength)
        type(self).check_values(self, sites)  # As in `check_given`.

    def check_values(self, sites: Sequence[Site]) -> None:
        """Raises `ValueError` if the new values do not fit at all of `sites`."""
        structure = Flat(self).key()
        for site in sites:
            if jnp.issubdtype(site.dtype, jnp.integer) and not holds_tracer(self):
                self._check_integers(site)
            if (structure, site) in _FITTING:
                continue
            value = jax.ShapeDtypeStruct(site.shape, site.dtype)
            new = jax.eval_shape(lambda v, s=site: self.replacement(v, s), value)
            check_fits(type(self).__name__, new, site)
            if structure is not None:
                if len(_FITTING) >= 4096:
                    _FITTING.clear()
                _FITTING.add((structure, site))

    def _check_integers(self, site: Site) -> None:
        """Raises `ValueError` for new values that integers cut or wrap around."""
        with jax.ensure_compile_time_eval():  # Also within a `jit`.
            new = self.replacement(jnp.zeros(site.shape, site.dtype), site)
        new = np.asarray(new)
        with np.errstate(invalid="ignore"):
            lost = new[new != new.astype(site.dtype)]
        if lost.size:
            got = f"{lost[0]:g} at {site}"
            raise ValueError(f"{type(self).__name__}: {site.dtype} cannot hold {got}")


def select(
    edit: Any,
    site: str,
    strength: ArrayLike,
    heads: Heads,
    where: Mapping[str, Any],
) -> None:
    """Sets the fields that say where, and how strongly; called in constructors."""
    edit.site = named("site", site)
    edit.where = Where.of(heads, where)
    edit.strength = number("strength", strength)


def number(name: str, value: ArrayLike) -> Array:
    """An array of floats; raises `ValueError` for anything that is not a number."""
    try:
        return known(value, float)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"{name} is a number, got {brief(value)}") from None


def numbers(what: str, value: Any, *, infinite: bool = False) -> Array:
    """The array of numbers that an edit holds, as JAX stores them.

    **Arguments:** `infinite`: Whether infinity is a number, as in the scores of a run.

    **Raises:** `ValueError`, which begins with `what`, for anything else and for NaN.
    """
    try:
        array = known(value)
    except (OverflowError, TypeError, ValueError):
        wanted = f"{what} is a number or an array that JAX can hold"
        raise ValueError(f"{wanted}, got {brief(value)}") from None
    if is_concrete(array):
        stored = np.asarray(array)
        if np.any(np.isnan(stored) if infinite else ~np.isfinite(stored)):
            wanted = "a number everywhere" if infinite else "finite everywhere"
            raise ValueError(f"{what} is not {wanted}, got {brief(stored)}")
    return array


def shown(edit: Any, most: int = 90) -> str:
    """The text of an edit for a message; a long text is cut in the middle."""
    text = repr(edit)
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} … {text[-most // 4 :]}"


def check_strength(strength: Array) -> None:
    """Raises `ValueError` unless a strength is one finite number, and not zero."""
    if strength.ndim:
        shape = strength.shape
        raise ValueError(f"strength is one number, got an array of shape {shape}")
    if is_concrete(strength) and not np.isfinite(np.asarray(strength)):
        raise ValueError(f"strength is a finite number, got {strength}")
    if is_concrete(strength) and not np.asarray(strength):
        raise ValueError("an edit at strength 0 changes nothing; leave it out")


def check_fits(kind: str, new: Any, site: Site) -> None:
    """Raises `ValueError` unless an array (or its shape) fits a site's axes."""
    same_rank = len(new.shape) == len(site.shape)
    pairs = zip(new.shape, site.shape, strict=False)
    if new.shape and not (same_rank and all(a in (1, b) for a, b in pairs)):
        raise ValueError(
            f"{kind}: an array of shape {new.shape} does not fit {site}; wanted a "
            "number, or an array with each of the site's axes in full or of length one "
            "(name the axes of a smaller array with axes=)"
        )


def several(edits: Iterable[Any]) -> tuple[Any, ...]:
    """The edits of a list; raises `ValueError` unless it is a list of edits."""
    if not isinstance(edits, Iterable):
        raise ValueError(f"edits is a sequence of edits, got one: write [{edits!r}]")
    edits = tuple(edits)
    for edit in edits:
        if not isinstance(edit, AbstractEdit | AbstractSwept):
            raise ValueError(f"edits are values such as opto.Zero, got {brief(edit)}")
    return edits


def _by_name_alone(kind: type, argument: str) -> bool:
    parameter = inspect.signature(kind.__init__).parameters.get(argument)
    return parameter is None or parameter.kind is parameter.KEYWORD_ONLY


def _selection(edit: Any) -> dict[str, Any]:
    """The keywords of an edit's selection and strength, if it has them."""
    where = getattr(edit, "where", None)
    keywords = {} if where is None else where.keywords()
    strength = getattr(edit, "strength", None)
    if strength is not None and (
        not is_concrete(strength) or np.any(np.asarray(strength) != 1)
    ):
        keywords["strength"] = strength
    return keywords


def blend(old: Array, new: Array, strength: Array) -> Array:
    """`(1 - strength) * old + strength * new`, exact at both ends."""
    # 0 * inf is NaN, so values that are not finite are not multiplied, such as scores
    # that a model masks with -inf.
    finite = jnp.isfinite(old) & jnp.isfinite(new)
    with jax.numpy_dtype_promotion("standard"):
        mixed = (1 - strength) * jnp.where(finite, old, jnp.zeros_like(old))
        mixed = mixed + strength * jnp.where(finite, new, jnp.zeros_like(new))
        mixed = mixed.astype(old.dtype)
    ends = jnp.where(strength == 1, new, old)
    if jnp.issubdtype(old.dtype, jnp.inexact):
        return jnp.where(finite, mixed, ends)
    # A product with the strength rounds large whole numbers.
    return jnp.where((strength == 0) | (strength == 1), ends, mixed)
