"""Models that were written without taps: their submodules' values become sites."""

import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ._marks import interpret, Mark, mark, Visitor
from ._modules import WITHIN
from ._names import (
    check_different,
    children_of,
    chosen_sites,
    is_part,
    kind_of,
    ModuleSites,
    Names,
    SiteName,
    submodules,
)
from ._tap import identity, Rows, Tap, VisitorTap
from .hints import brief


class Tapped(eqx.Module):
    """An Equinox model whose submodules have sites; see `opto.tapped`.

    **Attributes:**

    - `model`: The model as it was given. All arrays are its own.
    - `input_axes`: The axes of one example, if they are known.
    """

    model: eqx.Module
    input_axes: tuple[str, ...] | None = eqx.field(static=True)
    _sites: tuple[tuple[str, "ModuleSites"], ...] = eqx.field(static=True)

    def __call__(self, *inputs: Any, tap: Tap = identity, **keywords: Any) -> PyTree:
        """Calls the model; without a request, nothing else."""
        wanted = {path: sites.wanted(tap) for path, sites in self._sites}
        wanted = {path: sites for path, sites in wanted.items() if sites.roles}
        if not wanted:
            return self.model(*inputs, **keywords)  # pyright: ignore
        if not isinstance(tap, VisitorTap):
            tap = _visiting(tap)
        arrays, static = eqx.partition((self.model, inputs, keywords), eqx.is_array)
        others: list[Any] = []

        def call(arrays: Any) -> Any:
            model, inputs, keywords = eqx.combine(arrays, static)
            out = _marking(model, wanted)(*inputs, **keywords)
            out, other = eqx.partition(out, eqx.is_array)
            others[:] = [other]
            return out

        program, shape = jax.make_jaxpr(call, return_shape=True)(arrays)
        visited: set[str] = set()
        outs = interpret(program, jax.tree.leaves(arrays), _visitor(tap, visited))
        _check_called(wanted, visited)
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(shape), outs), *others)


def tapped(
    model: eqx.Module,
    names: Names | None = None,
    *,
    input_axes: Sequence[str] | None = None,
) -> Tapped:
    """Gives sites to an Equinox model that was written without taps.

    ```python
    names = {
        "layers.*": "blocks.*.resid_post[seq d_model]",
        "layers.*.attention": "blocks.*.attn.out[seq d_model]",
        "layers.*.mlp": {"input": "blocks.*.mlp.in", "output": "blocks.*.mlp.out"},
    }
    open_ = opto.tapped(model, names, input_axes=("seq",))
    ```

    The result trains, saves and loads as the model does, and a run that asks for
    nothing is a run of the model. `eqx.nn.MultiheadAttention` also has the sites `q`,
    `k`, `v`, `scores`, `pattern`, `z` and `result` beside its output, whose name ends
    with `.out`; `eqx.nn.LayerNorm` and `eqx.nn.RMSNorm` have `scale`, which the values
    are divided by.

    Submodules may be called under `vmap`, whose axes come first (`[seq d_model]`
    above), under `scan`, whose axis comes before these and is `layer` if the scan runs
    over the weights and else `step`, and under `cond`, `jax.checkpoint` and `jit`.
    Where a branch is not taken, its sites are NaN. A submodule that is called several
    times has the sites `name.0`, `name.1`, …. Axes without a name are `axis_0`, ….

    **Arguments:**

    - `names`: By the path of submodules (`layers.0.mlp`; a glob, in which `*` is one
        part of the path and stands for it in the name): the name of the site of their
        output, or names for `"input"` (the first argument) and `"output"`. Of a tuple,
        the first entry is the value. Without `names`, the output of each submodule has
        its path as a name, with `.out` for attention and norms.
    - `input_axes`: The names of the axes of one example, a string for each input; then
        more axes in front are batch axes.

    **Raises:** `ValueError` for a path that does not exist, and for two sites of one
    name. `opto.run` and `opto.sites` raise it for values that cannot leave the place
    where they are computed (`while_loop`), and for a submodule that is not called.
    """
    if not (isinstance(model, eqx.Module) and callable(model)):
        raise ValueError(f"model must be a callable eqx.Module, got {brief(model)}")
    if "tap" in inspect.signature(model).parameters:
        kind = type(model).__name__
        raise ValueError(f"{kind} takes tap= itself: give it to opto.run as it is")
    if not (names is None or isinstance(names, Mapping)):
        wanted = "a mapping from paths of submodules to names of sites"
        raise ValueError(f"names is {wanted}, got {brief(names)}")
    modules = dict(submodules(model))
    if names is None:
        chosen = {
            path: {"output": SiteName(path + ".out" * (kind_of(module) in WITHIN))}
            for path, module in modules.items()
            if path and not is_part(path, modules)
        }
    else:
        chosen = chosen_sites(names, modules)
    sites = {
        path: ModuleSites(tuple(roles.items()), names is not None).within(modules[path])
        for path, roles in chosen.items()
    }
    check_different(sites)
    axes = None if input_axes is None else tuple(input_axes)
    return Tapped(model, axes, tuple(sites.items()))


def _marking(module: Any, wanted: Mapping[str, ModuleSites], path: str = "") -> Any:
    """The same module, with some submodules that mark their values when called."""
    children, structure = children_of(module)
    new = []
    for place, child in children:
        if isinstance(child, eqx.Module):
            here = jax.tree_util.keystr(place, simple=True, separator=".")
            child = _marking(child, wanted, f"{path}.{here}" if path else here)
        new.append(child)
    module = jax.tree.unflatten(structure, new)
    if path not in wanted:
        return module
    marking = object.__new__(_marking_class(type(module)))
    for name, value in vars(module).items():
        object.__setattr__(marking, name, value)
    arrays = [x for x in jax.tree.leaves(module) if eqx.is_array(x)]
    most = arrays[0].ndim if arrays else 0
    object.__setattr__(marking, _FIELD, (path, wanted[path], most))
    return marking


_FIELD = "_opto_sites"


@functools.cache
def _marking_class(kind: type) -> type:
    """A subclass whose calls mark values; its instances are modules of `kind`."""

    def call(self, *args, **keywords):
        return _call(kind, self, args, keywords)

    body = {
        "__call__": call,
        "__annotations__": {_FIELD: Any},
        _FIELD: eqx.field(static=True, default=None),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    return type(kind)(kind.__name__, (kind,), body)


def _call(kind: type, module: Any, args: tuple, keywords: dict) -> Any:
    path, sites, most = getattr(module, _FIELD)
    roles = dict(sites.roles)
    arrays = [x for x in jax.tree.leaves(module) if eqx.is_array(x)]
    stacked = bool(arrays) and arrays[0].ndim < most

    def marked(role: str, value: Any, axes: str = "", rows: Rows | None = None) -> Any:
        name = roles.get(role)
        if name is None:
            return value
        given = tuple(axes.split()) or name.axes
        return mark(value, Mark(name.name, given, rows, stacked))

    if "input" in roles and args:
        args = (_first(args[0], "input", path, sites, marked), *args[1:])
    known = kind_of(module)
    if known in WITHIN and {*WITHIN[known][0]} & {*roles}:
        out = WITHIN[known][1](module, marked, roles.__contains__, *args, **keywords)
    else:
        out = kind.__call__(module, *args, **keywords)
    return _first(out, "output", path, sites, marked)


def _first(value: Any, role: str, path: str, sites: ModuleSites, marked: Any) -> Any:
    """Marks a value, or the first one of a tuple."""
    if type(value) is tuple and value and role in dict(sites.roles):
        return (_first(value[0], role, path, sites, marked), *value[1:])
    if role in dict(sites.roles) and not _is_numbers(value):
        if sites.explicit:
            got = brief(value)
            raise ValueError(f"names: the {role} of {path!r} is not an array but {got}")
        return value
    return marked(role, value)


def _is_numbers(x: Any) -> bool:
    return eqx.is_array(x) and not jnp.issubdtype(x.dtype, jax.dtypes.extended)


def _check_called(sites: Mapping[str, ModuleSites], visited: set[str]) -> None:
    """Raises `ValueError` for named submodules whose values were not seen."""
    missed = [
        path
        for path, named in sites.items()
        if named.explicit and not any(x.name in visited for _, x in named.roles)
    ]
    if missed:
        names = ", ".join(map(repr, missed))
        raise ValueError(f"names: the model does not call the submodules {names}")


def _visiting(tap: Tap) -> VisitorTap:
    """A tap of the user's own, as one that is asked for values within a scan."""

    def within(name: str, value: Array, axes: tuple[str, ...], rows: Rows | None):
        raise ValueError(
            f"{name!r} is computed within a scan or a branch, where a Tap of your own "
            "cannot take it; use opto.run"
        )

    visit = lambda name, value, axes, rows: tap(name, value, " ".join(axes), rows=rows)
    return VisitorTap(visit, tap.wants, edit=within)


def _visitor(tap: VisitorTap, visited: set[str]) -> Visitor:
    """Hands marked values to a tap; those within a scan in two steps."""

    def known(mark: Mark, value: Array) -> tuple[Any, ...]:
        visited.update((mark.name, re.sub(r"\.\d+$", "", mark.name)))
        return mark.name, value, mark.names_of(value.ndim), mark.rows

    def see(mark: Mark, value: Array) -> Array:
        name, value, axes, rows = known(mark, value)
        return tap(name, value, " ".join(axes), rows=rows)

    return Visitor(
        see,
        lambda mark, value: tap.edit(*known(mark, value)),
        lambda mark, value: tap.see(*known(mark, value)),
    )
