"""Edits whose new values are given, or computed from the old ones."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from ._checks import named
from ._edit import check_fits, Edit, Heads, numbers, select
from ._site import Site
from ._where import Chosen, find_axis


class Clamp(Edit):
    """Sets entries to a value.

    ```python
    Clamp("blocks.0.attn.pattern", jnp.eye(5, k=-1), axes="seq kv_seq", head=[0, 1])
    ```
    """

    value: Array
    axes: str | None = eqx.field(static=True)

    def __init__(
        self,
        site: str,
        value: ArrayLike | Sequence[Any],
        *,
        axes: str | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `site`: The name of a site or a glob.
        - `value`: A number; or an array with the site's axes, each in full or of length
            one; or an array with the axes named in `axes`. Cast to the site's dtype.
        - `axes`: The names of the value's axes when it does not have all of the site's.
        - `strength`: 0 leaves the activation, 1 sets it to the value; linear between.
        - `heads`: (layer, head) pairs, as `"1:3 1:7"` or a list of pairs.
        - `where`: The selected indices on any axis of the site, by its name, or on
            `layer`; `pos` is the axis `seq`, `unit` the last axis. Negative indices
            count from the end, except for layers that are numbers in the names. An axis
            that is not named is selected whole. `mask=` selects single entries: an
            array of booleans with the site's axes, each in full or of length one.

        **Raises:** `ValueError` for a value that is not finite, and for indices that
        are not whole numbers.
        """
        select(self, site, strength, heads, where)
        self.value, self.axes = _numbers(f"Clamp at {site!r}: the value", value, axes)

    def replacement(self, value: Array, site: Site) -> Array:
        return _spread(self.value, self.axes, site)

    def arguments(self) -> dict[str, Any]:
        return {"value": self.value, **_axes(self.axes)}


class Zero(Edit):
    """Sets entries to zero; `Zero("blocks.1.attn.z", head=3)` ablates a head."""

    # As in `Edit`; type checkers read a constructor only where it is written.
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

    def replacement(self, value: Array, site: Site) -> Array:
        return jnp.zeros((), value.dtype)


class Scale(Edit):
    """Multiplies entries by a factor.

    On `scores` the factor is one over the temperature of the attention:
    `Scale("blocks.1.attn.scores", 0.5, head=3)` sets head 3 to temperature 2.
    """

    factor: Array
    axes: str | None = eqx.field(static=True)

    def __init__(
        self,
        site: str,
        factor: ArrayLike | Sequence[Any],
        *,
        axes: str | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:** `factor` as `value` of `opto.Clamp`; others as there."""
        select(self, site, strength, heads, where)
        self.factor, self.axes = _numbers(
            f"Scale at {site!r}: the factor", factor, axes
        )

    def replacement(self, value: Array, site: Site) -> Array:
        return value * _fitting("Scale", self.factor, self.axes, site)

    def arguments(self) -> dict[str, Any]:
        return {"factor": self.factor, **_axes(self.axes)}


class Steer(Edit):
    """Adds a direction; `strength` scales it.

    `Steer("blocks.0.resid_post", direction, axes="d_model", pos=-1, strength=2.0)`.
    """

    direction: Array
    axes: str | None = eqx.field(static=True)

    def __init__(
        self,
        site: str,
        direction: ArrayLike | Sequence[Any],
        *,
        axes: str | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:** `direction` as `value` of `opto.Clamp`; others as there."""
        select(self, site, strength, heads, where)
        self.direction, self.axes = _numbers(
            f"Steer at {site!r}: the direction", direction, axes
        )

    def replacement(self, value: Array, site: Site) -> Array:
        return value + _fitting("Steer", self.direction, self.axes, site)

    def arguments(self) -> dict[str, Any]:
        return {"direction": self.direction, **_axes(self.axes)}


def _numbers(
    what: str, value: ArrayLike | Sequence[Any], axes: str | None
) -> tuple[Array, str | None]:
    return numbers(what, value), None if axes is None else named("axes", axes)


def _axes(axes: str | None) -> dict[str, str]:
    return {} if axes is None else {"axes": axes}


def _fitting(kind: str, value: Array, axes: str | None, site: Site) -> Array:
    """As `_spread`; raises `ValueError` if the result does not fit the site."""
    array = _spread(value, axes, site)
    check_fits(kind, array, site)
    return array


def _spread(value: Array, axes: str | None, site: Site) -> Array:
    """An array with named axes, with its axes put in the order of the site's."""
    if axes is None:
        return value
    places = [find_axis(axis, site) for axis in axes.split()]
    if len(set(places)) != value.ndim or len(places) != value.ndim:
        raise ValueError(f"axes={axes!r} does not fit a value of shape {value.shape}")
    missing = [i for i in range(len(site.axes)) if i not in places]
    return jnp.expand_dims(value.transpose(np.argsort(places)), tuple(missing))
