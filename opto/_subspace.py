"""Edits of a linear subspace of a site's vectors, and of nothing outside of it."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real

from ._checks import named
from ._edit import Edit, Heads, numbers, select
from ._site import Site
from ._where import Chosen, find_axis, is_concrete


class Subspace(eqx.Module):
    """The span of some vectors on one axis of a site.

    **Fields:**

    - `vectors`: They need be neither orthogonal nor of length 1, but independent.
    - `axes`: The names of their axes but `rank`. The last one is that of the vectors;
        the others choose a subspace for each head or layer.
    """

    vectors: Real[Array, "*each rank size"]
    axes: tuple[str, ...] = eqx.field(static=True)

    @staticmethod
    def of(what: str, basis: ArrayLike | Sequence[Any], axes: str | None) -> "Subspace":
        """**Raises:** `ValueError` for vectors that the axes do not fit, and for
        dependent ones, which span less than they say."""
        vectors = numbers(what, basis)
        names = tuple(named("axes", axes).split()) if axes is not None else ("unit",)
        if vectors.ndim == len(names):  # One vector.
            vectors = vectors[..., None, :]
        if vectors.ndim != len(names) + 1 or vectors.shape[-2] > vectors.shape[-1]:
            wanted = (
                f"[{', '.join((*names[:-1], 'rank', names[-1]))}], rank no more than"
            )
            got = f"got shape {vectors.shape}"
            raise ValueError(f"{what} must be {wanted} {names[-1]}; {got}")
        if is_concrete(vectors):
            wide = np.asarray(vectors, np.float64)
            if not _independent(wide, np.linalg.qr(wide.mT)[1], np).all():
                wanted = "linearly independent vectors, none of them zero"
                raise ValueError(f"{what} must be {wanted}")
        return Subspace(vectors, names)

    def arguments(self) -> dict[str, Any]:
        """The arguments of the text form."""
        axes = {} if self.axes == ("unit",) else {"axes": " ".join(self.axes)}
        return {"basis": self.vectors, **axes}

    def orthonormal(self, site: Site) -> Float[Array, "... rank size"]:
        """An orthonormal basis, with the site's other axes in full or of length one.

        The first vector keeps its direction, and the others theirs apart from what lies
        in those before them.
        """
        vectors, axes = self.vectors, self.axes
        if "layer" in axes and "layer" not in site.axes:
            place = axes.index("layer")
            layer, count = site.layer, vectors.shape[place]
            if layer is None or layer >= count:
                raise ValueError(f"basis has {count} layers, got {site}")
            vectors = vectors.take(layer, place)
            axes = (*axes[:place], *axes[place + 1 :])
        size = site.shape[find_axis(axes[-1], site)]
        if vectors.shape[-1] != size:
            got = f"vectors of length {vectors.shape[-1]}"
            raise ValueError(f"basis has {got}, which do not fit {site}")
        wide = jnp.promote_types(vectors.dtype, jnp.float32)
        vectors = vectors.astype(wide)
        found, upper = jnp.linalg.qr(vectors.mT)
        signs = jnp.sign(jnp.diagonal(upper, axis1=-2, axis2=-1))
        # A dependent vector, not known before, adds nothing to the span.
        signs = jnp.where(_independent(vectors, upper, jnp), signs, 0)
        found = (found * signs[..., None, :]).mT
        # Lead axes in the order of the site's, and of length one where it has others.
        rest = [i for i in range(len(site.axes)) if i != find_axis(axes[-1], site)]
        places = [find_axis(axis, site) for axis in axes[:-1]]
        order = sorted(range(len(places)), key=places.__getitem__)
        found = found.transpose(*order, len(places), len(places) + 1)
        shape = [site.shape[i] if i in places else 1 for i in rest]
        if found.shape[:-2] != tuple(site.shape[i] for i in rest if i in places):
            got = f"a basis of shape {self.vectors.shape}"
            raise ValueError(f"axes={' '.join(self.axes)!r}: {got} does not fit {site}")
        return found.reshape(*shape, *found.shape[-2:])

    def within(self, change: Array, site: Site, to: Array | None = None) -> Array:
        """What of a change lies in the subspace; or the vector at coordinates `to`."""
        place = find_axis(self.axes[-1], site)
        basis = self.orthonormal(site).astype(change.dtype)
        found = jnp.einsum("...d,...rd->...r", jnp.moveaxis(change, place, -1), basis)
        found = found if to is None else jnp.broadcast_to(to, found.shape)
        found = found.astype(change.dtype)
        return jnp.moveaxis(jnp.einsum("...r,...rd->...d", found, basis), -1, place)


def _independent(vectors: Any, upper: Any, xp: Any) -> Any:
    """Which vectors are not in the span of those before them, `[…, rank]`.

    **Arguments:** `upper`: The triangular matrix of their QR decomposition.
    """
    left = xp.abs(xp.diagonal(upper, 0, -2, -1))
    length = xp.linalg.norm(vectors, axis=-1)
    least = vectors.shape[-1] * xp.finfo(xp.float32).eps
    return left > least * length


class Project(Edit):
    """Removes a subspace, or sets the coordinates in it.

    `Project("**.resid_post", direction, axes="d_model")` is directional ablation
    (Arditi et al. 2024, arXiv 2406.11717).
    """

    basis: Subspace
    to: Array | None

    def __init__(
        self,
        site: str,
        basis: ArrayLike | Sequence[Any],
        *,
        axes: str | None = None,
        to: ArrayLike | Sequence[Any] | None = None,
        strength: ArrayLike = 1.0,
        heads: Heads = None,
        **where: Chosen,
    ):
        """**Arguments:**

        - `basis`: Vectors that span the subspace, `[rank, size]`, or one of them. They
            are made orthonormal, in their order.
        - `axes`: The axis of the site that the vectors are of, the last one by default.
            With more names, `axes="layer head d_head"`, there is a basis for each layer
            and head, `[layer, head, rank, d_head]`.
        - `to`: The new coordinates along the orthonormal basis, `[rank]`; 0 by default.
        - `site`, `strength`, `heads`, `where`: as for `opto.Clamp`.

        **Raises:** `ValueError` for vectors that are not finite or do not fit.
        """
        select(self, site, strength, heads, where)
        self.basis = Subspace.of(f"Project at {site!r}: the basis", basis, axes)
        self.to = None if to is None else numbers(f"Project at {site!r}: to", to)

    def replacement(self, value: Array, site: Site) -> Array:
        rest = value - self.basis.within(value, site)
        if self.to is None:
            return rest
        return rest + self.basis.within(value, site, self.to)

    def arguments(self) -> dict[str, Any]:
        to = {} if self.to is None else {"to": self.to}
        return {**self.basis.arguments(), **to}
