"""Edits: values that say what to change at which sites."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ._each import Each
from ._site import Site
from ._where import Chosen, find_axis, is_concrete, known, Where


class Edit(eqx.Module):
    """What to change at the sites that match a pattern.

    A subclass gives the new values (`replacement`); which entries take them (`where`)
    and how strongly (`strength`) is the same for all edits. The site pattern and the
    names of axes are static; indices, values and strengths are arrays, so that edits
    which differ only in those share one compiled program.

    `repr` is the text form that `opto.parse` reads back.
    """

    site: eqx.AbstractVar[str]
    where: eqx.AbstractVar[Where]
    strength: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def replacement(self, value: Array, site: Site) -> Array:
        """The new values at a site, before selection.

        A number, or an array with the site's axes, each in full or of length one.
        """

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments but for the site and the selection."""

    def __call__(self, value: Array, site: Site) -> Array:
        """The edited value: `(1 - strength) * value + strength * replacement`.

        In that form both ends are exact: strength 0 gives `value`, strength 1 the
        replacement (to the bit without jit; compiled, to rounding). Where either is not
        finite there is nothing between: the value below strength 1, then the new one.
        """
        new = jnp.asarray(self.replacement(value, site)).astype(value.dtype)
        blend = _blend(value, new, self.strength)
        mask = self.where.mask(site)
        return blend if mask is None else jnp.where(mask, blend, value)

    def check(self, sites: Sequence[Site]) -> None:
        """Raises `ValueError` if this edit cannot apply at all of `sites`."""
        self.where.check(sites)
        if self.strength.ndim:
            shape = self.strength.shape
            raise ValueError(f"strength is one number, got an array of shape {shape}")
        if is_concrete(self.strength) and not np.isfinite(np.asarray(self.strength)):
            raise ValueError(f"strength is a finite number, got {self.strength}")
        for site in sites:
            value = jax.ShapeDtypeStruct(site.shape, site.dtype)
            new = jax.eval_shape(lambda v, s=site: self.replacement(v, s), value)
            both = (new.dtype, site.dtype)
            theirs, ours = (jnp.issubdtype(t, jnp.complexfloating) for t in both)
            if theirs and not ours:
                raise ValueError(f"{type(self).__name__}: complex values at {site}")
            same_rank = len(new.shape) == len(site.shape)
            pairs = zip(new.shape, site.shape, strict=False)
            if new.shape and not (same_rank and all(a in (1, b) for a, b in pairs)):
                raise ValueError(
                    f"{type(self).__name__}: an array of shape {new.shape} does not "
                    f"fit {site}; wanted a number, or each of the site's axes in full "
                    "or of length one (axes= names the axes of one that has fewer)"
                )

    def each(self, *axes: str) -> Each:
        """This edit once for each index of `axes`, for `opto.sweep`.

        `Zero("blocks.*.attn.z").each("layer", "head")` is every head by itself;
        `Zero("blocks.*.attn.z", head=[0, 2]).each("head")` heads 0 and 2.
        """
        return Each(self, axes)

    def __repr__(self) -> str:
        parts = [repr(self.site)]
        keywords = {**self.arguments(), **self.where.keywords()}
        if not is_concrete(self.strength) or np.any(np.asarray(self.strength) != 1):
            keywords["strength"] = self.strength
        parts += [f"{name}={_text(value)}" for name, value in keywords.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class Clamp(Edit):
    """Sets entries to a value.

    ```python
    Clamp("blocks.0.attn.pattern", jnp.eye(5, k=-1), axes="seq kv_seq", head=[0, 1])
    ```
    """

    site: str = eqx.field(static=True)
    value: Array
    axes: str | None = eqx.field(static=True)
    where: Where
    strength: Float[Array, "..."]

    def __init__(
        self,
        site: str,
        value: ArrayLike | Sequence[Any],
        *,
        axes: str | None = None,
        strength: ArrayLike = 1.0,
        heads: str | Sequence[Sequence[int]] | None = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `site`: The name of a site or a glob.
        - `value`: A number; or an array with the site's axes, each in full or of length
            one; or one with the axes that `axes` names. Cast to the site's dtype.
        - `axes`: The names of the value's axes when it does not have all of the site's.
        - `strength`: 0 leaves the activation, 1 sets it to the value; linear between.
        - `heads`: (layer, head) pairs, as `"1:3 1:7"` or a list of pairs.
        - `where`: The selected indices of any axis of the site by its name, or of
            `layer`; `pos` is the axis `seq`, `unit` the last axis. Negative indices
            count from the end, but not layers where these are numbers in the names.
            An axis not named is selected whole.

        **Raises:** `ValueError` for a value that is not finite, and for indices that
        are not whole numbers.
        """
        self.site = _named("site", site)
        self.value = known(value)
        self.axes = None if axes is None else _named("axes", axes)
        self.where = Where.of(heads, where)
        self.strength = known(strength, float)
        if is_concrete(self.value) and not np.all(np.isfinite(np.asarray(self.value))):
            raise ValueError(f"Clamp at {site!r}: the value is not finite everywhere")

    def replacement(self, value: Array, site: Site) -> Array:
        if self.axes is None:
            return self.value
        places = [find_axis(axis, site) for axis in self.axes.split()]
        if len(set(places)) != self.value.ndim or len(places) != self.value.ndim:
            shape = self.value.shape
            raise ValueError(
                f"axes={self.axes!r} does not fit a value of shape {shape}"
            )
        missing = [i for i in range(len(site.axes)) if i not in places]
        return jnp.expand_dims(self.value.transpose(np.argsort(places)), missing)

    def arguments(self) -> dict[str, Any]:
        axes = {} if self.axes is None else {"axes": self.axes}
        return {"value": self.value, **axes}


class Zero(Edit):
    """Sets entries to zero; `Zero("blocks.1.attn.z", head=3)` ablates a head."""

    site: str = eqx.field(static=True)
    where: Where
    strength: Float[Array, "..."]

    def __init__(
        self,
        site: str,
        *,
        strength: ArrayLike = 1.0,
        heads: str | Sequence[Sequence[int]] | None = None,
        **where: Chosen,
    ):
        """**Arguments:** `site`, `strength`, `heads`, `where`: as for `opto.Clamp`."""
        self.site = _named("site", site)
        self.where = Where.of(heads, where)
        self.strength = known(strength, float)

    def replacement(self, value: Array, site: Site) -> Array:
        return jnp.zeros((), value.dtype)

    def arguments(self) -> dict[str, Any]:
        return {}


def _named(argument: str, text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{argument} must be a string, got {text!r}")
    return text


def _blend(old: Array, new: Array, strength: Array) -> Array:
    # What is not finite is not multiplied, as 0 * inf is NaN: such as scores that a
    # model masks with -inf.
    finite = jnp.isfinite(old) & jnp.isfinite(new)
    with jax.numpy_dtype_promotion("standard"):
        blend = (1 - strength) * jnp.where(finite, old, jnp.zeros_like(old))
        blend = blend + strength * jnp.where(finite, new, jnp.zeros_like(new))
        blend = blend.astype(old.dtype)
    ends = jnp.where(strength == 1, new, old)
    if jnp.issubdtype(old.dtype, jnp.inexact):
        return jnp.where(finite, blend, ends)
    # A product with the strength rounds large whole numbers.
    return jnp.where((strength == 0) | (strength == 1), ends, blend)


def _text(value: Any) -> str:
    """A literal that reads back as the same value, array for array."""
    if not eqx.is_array(value):
        return repr(value)
    if not is_concrete(value):
        return f"{value.dtype}{list(value.shape)}"
    return _literal(np.asarray(value))


def _literal(array: np.ndarray) -> str:
    if array.ndim:
        return "[" + ", ".join(_literal(np.asarray(x)) for x in array) + "]"
    if jnp.issubdtype(array.dtype, jnp.floating) and array.itemsize < 4:
        array = array.astype(np.float32)  # As what it is read back.
    # NumPy's shortest digits that read back as the same number of this dtype.
    return str(array[()])
