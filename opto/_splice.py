"""Modules that are put into the stream of a model, such as a sparse autoencoder."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree

from ._checks import named
from ._tap import identity, Rows, Tap, VisitorTap
from .hints import brief


class Spliced(eqx.Module):
    """A model with a module in its stream; see `opto.splice`.

    **Attributes:** `model`, `module`: As they were given.
    """

    model: Any
    module: Callable[..., Array]
    site: str = eqx.field(static=True)
    reads: str = eqx.field(static=True)
    name: str = eqx.field(static=True)
    error: bool = eqx.field(static=True)

    @property
    def input_axes(self) -> Any:
        """The model's."""
        return getattr(self.model, "input_axes", None)

    def __call__(self, *inputs: Any, tap: Tap = identity) -> PyTree:
        """Calls the model, whose values at the site go through the module."""
        read: dict[str, Array] = {}
        spliced: list[str] = []
        inner = f"{self.site}.{self.name}"

        def visit(
            name: str, value: Array, axes: tuple[str, ...], rows: Rows | None
        ) -> Array:
            value = tap(name, value, " ".join(axes), rows=rows)
            if name == self.reads:
                read[name] = value
            if name != self.site:
                return value
            if self.reads not in read:
                raise ValueError(f"reads={self.reads!r} does not come before {name!r}")
            spliced.append(name)
            given, here = read[self.reads], tap.scope(inner)
            out = self.module(given, axes=" ".join(axes), tap=here)
            if out.shape != value.shape:
                wanted = f"the shape of {name!r}, {value.shape}"
                raise ValueError(f"module must give {wanted}, got {out.shape}")
            if self.error:
                missed = value - self.module(given, axes=" ".join(axes), tap=identity)
                out = out + here("error", missed, " ".join(axes))
            return tap(inner, out.astype(value.dtype), " ".join(axes))

        def wanted(name: str) -> bool:
            own = any(
                f"{site}.".startswith(f"{name}.") for site in (self.site, self.reads)
            )
            return own or tap.wants(name)

        def within(name: str, value: Array, axes: Any, rows: Any) -> Array:
            if name in (self.site, self.reads):
                raise ValueError(
                    f"{name!r} is computed within a scan; splice elsewhere"
                )
            return value

        out = self.model(*inputs, tap=VisitorTap(visit, wanted, edit=within))
        if not spliced:
            raise ValueError(f"the model has no site {self.site!r} to splice at")
        return out


def splice(
    model: Callable[..., Any],
    site: str,
    module: Callable[..., Array],
    *,
    name: str,
    reads: str | None = None,
    error: bool = True,
) -> Spliced:
    """Passes a site's value through a module that has sites of its own.

    ```python
    spliced = opto.splice(model, "blocks.0.mlp.out", autoencoder, name="sae")
    edits = [opto.Zero("blocks.0.mlp.out.sae.features", feature=7)]
    ```

    The result is a model like any: its sites, also the module's, are recorded, edited,
    swept and attributed to. Splices can be nested.

    **Arguments:**

    - `model`: As for `opto.run`.
    - `site`: One site; the module gives its new value.
    - `module`: A callable module, `module(value, axes=, tap=)`, on a value with the
        site's axes, whose names are `axes`, such as `opto.dictionary.Dictionary`.
    - `name`: What the module's sites begin with: `site.name.…`; its output is
        `site.name`.
    - `reads`: The site that the module reads, if it is another one, as a transcoder
        reads `mlp.in`. It comes before `site`.
    - `error`: Whether what the unedited module misses is added (`site.name.error`).
        Then outputs change only through edits.
    """
    if not callable(module):
        raise ValueError(f"module must be callable, got {brief(module)}")
    reads = site if reads is None else reads
    for argument, text in (("site", site), ("name", name), ("reads", reads)):
        named(argument, text)
    return Spliced(model, module, site, reads, name, error)
