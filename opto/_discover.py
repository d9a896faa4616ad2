"""The sites of a model, found by a trace that computes nothing."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.core import Tracer
from jax.extend.core import Literal

from ._checks import takes_tap
from ._examples import one_example
from ._flat import Flat
from ._site import Site, Sites
from ._tap import VisitorTap


try:  # Its place since JAX 0.10.
    from jax.extend.core import get_opaque_trace_state
except ImportError:
    from jax.core import get_opaque_trace_state


def sites(model: Callable[..., Any], *inputs: Any) -> Sites:
    """Lists every site of a model with its axes, shape and dtype; computes nothing.

    **Arguments:**

    - `model`: A callable that takes `tap=`, usually an Equinox module.
    - `inputs`: The model's inputs: one example, or a batch if the model says what one
        example is (`input_axes`, see `opto.run`). Arrays or `jax.ShapeDtypeStruct`s.

    **Returns:**

    The sites of one example. Printing them gives a table.

    **Raises:** `ValueError` if a site is named twice, if its axes do not fit its value,
    or if it is named inside of a `vmap` or `scan`.
    """
    example, _ = one_example(model, inputs)
    return find_sites(model, *example)


def find_sites(fn: Callable[..., Any], *args: Any) -> Sites:
    """`sites` of any function `fn(*args, tap=)`; remembered if it is a module.

    Other functions may close over values that change, or over tracers, which must not
    be kept.
    """
    return known_sites(fn, args) if isinstance(fn, eqx.Module) else discover(fn, *args)


def discover(fn: Callable[..., Any], *args: Any) -> Sites:
    """`sites` of any function `fn(*args, tap=)`, which may close over tracers."""
    takes_tap("model", fn)
    table: dict[str, Site] = {}

    def visited(fn, args):
        outside = get_opaque_trace_state()

        def visit(name, value, axes, rows):
            if get_opaque_trace_state() != outside:
                raise ValueError(
                    f"site {name!r} is named inside of a vmap, scan, jit or similar "
                    "within the model; its value cannot leave that, so call tap outside"
                )
            if name in table:
                raise ValueError(f"two values are named {name!r}; use tap.scope")
            _check_value(name, value, axes)
            table[name] = Site(name, axes, value.shape, np.dtype(value.dtype), rows)
            return value

        unchanged = lambda name, value, axes, rows: value
        fn(*args, tap=VisitorTap(visit, lambda name: True, edit=unchanged))

    eqx.filter_eval_shape(visited, fn, args)
    arrays, static = eqx.partition((fn, args), _has_shape)
    shapes = jax.tree.map(_shape, arrays)
    return Sites(table, lambda: _unread(shapes, static))


_MARK = "opto site "


def _marked_program(
    shapes: Any, static: Any, wanted: Callable[[str], bool]
) -> tuple[Any, set[str]]:
    """The program of a call, in which wanted sites pass through a mark; their names."""
    marked: set[str] = set()

    def visit(name, value, axes, rows):
        # What is known now is not in the program.
        if not (wanted(name) and isinstance(value, Tracer)):
            return value
        marked.add(name)
        return checkpoint_name(value, _MARK + name)

    def call(shapes):
        fn, args = eqx.combine(shapes, static)
        out = fn(*args, tap=VisitorTap(visit, wanted=lambda name: True))
        return eqx.filter(out, eqx.is_array)

    return jax.make_jaxpr(call)(shapes).jaxpr, marked


def _unread(shapes: Any, static: Any) -> frozenset[str]:
    """The sites whose taps return values that a call's outputs do not depend on."""
    program, marked = _marked_program(shapes, static, lambda name: True)
    needed = {v for v in program.outvars if not isinstance(v, Literal)}
    for step in reversed(program.eqns):
        if needed.isdisjoint(step.outvars) and not step.effects:
            continue
        needed.update(v for v in step.invars if not isinstance(v, Literal))
        marked.discard(str(step.params.get("name", "")).removeprefix(_MARK))
    return frozenset(marked)


def direct_sources(
    model: Any, example: Sequence[Any], sites: Collection[str]
) -> dict[str, frozenset[str]]:
    """For each site, the others that it depends on, not only through further ones."""
    arrays, static = eqx.partition((model, tuple(example)), _has_shape)
    program, _ = _marked_program(
        jax.tree.map(_shape, arrays), static, sites.__contains__
    )
    found: dict[str, frozenset[str]] = {}
    comes_from: dict[Any, frozenset[str]] = {}
    for step in program.eqns:
        given = (v for v in step.invars if not isinstance(v, Literal))
        sources = frozenset[str]().union(*(comes_from.get(v, ()) for v in given))
        name = str(step.params.get("name", ""))
        if name.startswith(_MARK):
            name = name.removeprefix(_MARK)
            found[name], sources = sources, frozenset({name})
        comes_from.update(dict.fromkeys(step.outvars, sources))
    return found


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    weak = bool(getattr(x, "weak_type", False))
    return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=weak)


def _check_value(name: str, value: Any, axes: tuple[str, ...]) -> None:
    if not eqx.is_array(value) or jnp.issubdtype(value.dtype, jax.dtypes.extended):
        kind = value.dtype if eqx.is_array(value) else type(value).__name__
        raise ValueError(f"site {name!r} is not an array of numbers but {kind}")
    if len(axes) != value.ndim or len(set(axes)) < len(axes):
        given = f"axes {' '.join(axes)!r}, but shape {value.shape}"
        raise ValueError(f"site {name!r} has {given}; wanted one name for each axis")


_TABLES: dict[Any, Sites] = {}


def known_sites(model: Any, example: Sequence[Any], flat: Flat | None = None) -> Sites:
    """`discover`, remembered for models and inputs of the same structure.

    `discover` traces the model, which would slow down a loop over small runs. A
    function is recognised by its identity, as `jax.jit` does for `run`; `find_sites`
    traces it every time.

    **Arguments:** `flat`: The model taken apart, if that was done before.
    """
    key = (flat or Flat(model)).key(), Flat(example).key()
    if None in key:
        return discover(model, *example)
    table = _TABLES.get(key)
    if table is None:
        if len(_TABLES) >= 256:
            _TABLES.clear()
        table = _TABLES[key] = discover(model, *example)
    return table


def _has_shape(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
