"""The sites of a model: what can be recorded and edited, found without computing."""

import dataclasses
import functools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.core import Tracer
from jax.extend.core import Literal

from ._checks import takes_tap
from ._names import last_name, MIXED, scope_of
from ._tap import Rows, VisitorTap
from .hints import brief, did_you_mean


try:  # Its place since JAX 0.10.
    from jax.extend.core import get_opaque_trace_state
except ImportError:
    from jax.core import get_opaque_trace_state


@dataclasses.dataclass(frozen=True)
class Site:
    """One named intermediate value of a model, for one example.

    **Fields:**

    - `name`: Dotted, e.g. `blocks.1.attn.pattern`.
    - `axes`: The name of each axis, e.g. `("head", "seq", "kv_seq")`.
    - `shape`: The length of each axis.
    - `dtype`: The dtype of the value.
    - `rows`: What the rows of attention are, if the model says it.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    rows: Rows | None = None

    @property
    def layer(self) -> int | None:
        """The first number in the name: `blocks.1.attn.z` is in layer 1."""
        return layer_of(self.name)

    @property
    def dims(self) -> str:
        """Axes and their lengths, `[head=8 seq=5 d_head=8]`."""
        pairs = zip(self.axes, self.shape, strict=True)
        return "[" + " ".join(f"{axis}={size}" for axis, size in pairs) + "]"

    def matches(self, *patterns: str) -> bool:
        """Whether one of the names or globs selects this site."""
        return any(glob(pattern).fullmatch(self.name) for pattern in patterns)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{self.dims}"


def layer_of(name: str) -> int | None:
    """The first number in a site's name."""
    numbers = [part for part in name.split(".") if part.isdigit()]
    return int(numbers[0]) if numbers else None


def glob(pattern: str) -> re.Pattern[str]:
    """A regular expression for the names that a name or a glob selects."""
    if pattern == "*":
        pattern = "**"  # Who asks for everything does not mean the names without dots.
    regex = re.escape(pattern)
    for sign, meaning in (
        (r"\*\*\.", r"(?:.*\.)?"),
        (r"\.\*\*", r"(?:\..*)?"),
        (r"\*\*", ".*"),
        (r"\*", "[^.]*"),
    ):
        regex = regex.replace(sign, meaning)
    return re.compile(regex)


class Sites(Mapping[str, Site]):
    """The sites of a model in the order of computation; prints as a table."""

    def __init__(self, table: Mapping[str, Site], unread: Callable[[], frozenset[str]]):
        self._table = dict(table)
        # This needs another trace, so it is found on request.
        self._find_unread = unread

    @functools.cached_property
    def unread(self) -> frozenset[str]:
        """The sites where the model does not use what its tap returns.

        An edit there has no effect. Empty if this is not known.
        """
        try:
            return self._find_unread()
        except Exception:
            # Not every model runs with all its values replaced, and a function may
            # close over a value that is gone.
            return frozenset()

    def __getitem__(self, name: str) -> Site:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        never = "  (the model does not use what its tap returns)"
        return "\n".join(
            f"{s.name:{width}}  {s.dtype}{s.dims}{never * (s.name in self.unread)}"
            for s in self.values()
        )

    def match(self, pattern: str) -> tuple[Site, ...]:
        """The sites that a name or a glob selects.

        `*` stands for anything within one part of the name (`blocks.*.attn.z`), `**`
        for any number of parts, also none (`**.pattern`). A lone `*` or `**` selects
        every site.

        **Raises:** `ValueError` with the nearest name if no site matches.
        """
        if not isinstance(pattern, str):
            kind = type(pattern).__name__
            raise ValueError(f"a site is given by its name or a glob, got {kind}")
        if pattern in self._table:
            return (self._table[pattern],)
        regex = glob(pattern)
        found = tuple(s for s in self._table.values() if regex.fullmatch(s.name))
        if not found:
            verb = "no site matches" if "*" in pattern else "no site"
            hint = self._lacking(pattern) or self._nearest(pattern)
            raise ValueError(f"{verb} {pattern!r}{hint}")
        return found

    def _lacking(self, pattern: str) -> str:
        """Why there are no scores or no kernel: the attention is of another kind."""
        asked = pattern.split(".")[-1]
        if why := self.not_additive(pattern):
            return f": {why}"
        if asked not in ("scores", "kernel"):
            return ""
        for site in self._table.values():
            has = site.name.split(".")[-1]
            if site.rows and site.rows.are in ("logits", "kernel") and has != asked:
                return f": {site.rows.of} has no {asked} but {site.name!r}"
        return ""

    def not_additive(self, *patterns: str) -> str:
        """Why attention that patterns select has no `result`; empty if none lacks it.

        A layer whose heads are mixed writes no sum of what each head writes.
        """
        for site in self._table.values():
            scope = scope_of(site.name)
            result = f"{scope}.result".lstrip(".")
            chosen = any(glob(pattern).fullmatch(result) for pattern in patterns)
            if last_name(site.name) == MIXED and chosen:
                weights = self._table.get(f"{scope}.pattern".lstrip("."))
                rows = weights.rows if weights else None
                of = rows.of if rows else "this attention"
                return (
                    f"there is no {result!r}, because what a head of {of} writes "
                    f"depends on all heads ({site.name!r})"
                )
        return ""

    def _nearest(self, pattern: str) -> str:
        globs = {re.sub(r"\b\d+\b", "*", name): None for name in self}
        known = [*globs] if "*" in pattern else [*self]
        if hint := did_you_mean(pattern, known, cutoff=0.5):
            return hint
        # Only the end may be right: 'pattern', 'blocks.9.attn.z'.
        last = pattern.split(".")[-1]
        ends = [name for name in self if name.split(".")[-1] == last]
        return f"; sites: {', '.join(ends or list(self))}"


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

        fn(*args, tap=VisitorTap(visit, wanted=lambda name: True))

    eqx.filter_eval_shape(visited, fn, args)
    arrays, static = eqx.partition((fn, args), _has_shape)
    shapes = jax.tree.map(_shape, arrays)
    return Sites(table, lambda: _unread(shapes, static))


_MARK = "opto site "


def _unread(shapes: Any, static: Any) -> frozenset[str]:
    """The sites whose taps return values that a call's outputs do not depend on."""
    marked: set[str] = set()

    def visit(name, value, axes, rows):
        if not isinstance(value, Tracer):  # Known now, so not in the program.
            return value
        marked.add(name)
        return checkpoint_name(value, _MARK + name)

    def call(shapes):
        fn, args = eqx.combine(shapes, static)
        out = fn(*args, tap=VisitorTap(visit, wanted=lambda name: True))
        return eqx.filter(out, eqx.is_array)

    program = jax.make_jaxpr(call)(shapes).jaxpr
    needed = {v for v in program.outvars if not isinstance(v, Literal)}
    for step in reversed(program.eqns):
        if needed.isdisjoint(step.outvars) and not step.effects:
            continue
        needed.update(v for v in step.invars if not isinstance(v, Literal))
        marked.discard(str(step.params.get("name", "")).removeprefix(_MARK))
    return frozenset(marked)


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


def one_example(
    model: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], int]:
    """Strips the batch axes from `inputs`; also returns how many were stripped.

    The inputs of a model that sets `input_axes` (one string of axis names for each
    input) may have more leading axes than it names: the batch axes. Without
    `input_axes` the inputs are one example.

    **Raises:** `ValueError` naming the input whose rank or batch size does not fit.
    """
    for i, x in enumerate(inputs):
        for leaf in jax.tree.leaves(x):
            if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OUSMm":
                raise ValueError(f"input {i} must hold numbers, got {brief(leaf)}")
    declared = getattr(model, "input_axes", None)
    if declared is None:
        return inputs, 0
    if isinstance(declared, str) or not all(isinstance(x, str) for x in declared):
        wanted = "input_axes must be a tuple with a string for each input, ('seq',)"
        raise ValueError(f"{wanted}; got {brief(declared)}")
    if len(inputs) != len(declared):
        wanted = ", ".join(repr(axes) for axes in declared)
        raise ValueError(
            f"expected {len(declared)} inputs ({wanted}), got {len(inputs)}"
        )
    for i, x in enumerate(inputs):
        if isinstance(x, list | tuple):
            got = type(x).__name__
            raise ValueError(f"input {i} must be an array (jnp.asarray), got a {got}")
    batches = [
        _batch_shape(i, np.shape(x), axes)
        for i, (x, axes) in enumerate(zip(inputs, declared, strict=True))
    ]
    shapes = [np.shape(x)[len(b) :] for x, b in zip(inputs, batches, strict=True)]
    _check_sizes(shapes, declared)
    if len(set(batches)) > 1:
        got = ", ".join(
            f"{axes!r}: {b}" for axes, b in zip(declared, batches, strict=True)
        )
        raise ValueError(f"the inputs' batch axes differ ({got})")
    lead = len(batches[0])
    example = tuple(
        jax.ShapeDtypeStruct(np.shape(x)[lead:], jax.numpy.result_type(x))
        for x in inputs
    )
    return (inputs, 0) if lead == 0 else (example, lead)


def _check_sizes(shapes: Sequence[tuple[int, ...]], declared: Sequence[str]) -> None:
    """Raises `ValueError` if inputs share an axis name but differ in its length."""
    sizes: dict[str, int] = {}
    for i, (shape, axes) in enumerate(zip(shapes, declared, strict=True)):
        for axis, size in zip(axes.split(), shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                raise ValueError(
                    f"input {i} has length {size} on the axis {axis!r}, the inputs "
                    f"before it have {sizes[axis]}"
                )


def _batch_shape(i: int, shape: tuple[int, ...], axes: str) -> tuple[int, ...]:
    lead = len(shape) - len(axes.split())
    if lead < 0:
        raise ValueError(f"input {i} has axes {axes!r}, got an array of shape {shape}")
    return shape[:lead]


_TABLES: dict[Any, Sites] = {}


def known_sites(model: Any, example: Sequence[Any]) -> Sites:
    """`discover`, remembered for models and inputs of the same structure.

    `discover` traces the model, which would slow down a loop over small runs. A
    function is recognised by its identity, as `jax.jit` does for `run`; `find_sites`
    traces it every time.
    """
    key = structure_of((model, example))
    if key is None:
        return discover(model, *example)
    table = _TABLES.get(key)
    if table is None:
        if len(_TABLES) >= 256:
            _TABLES.clear()
        table = _TABLES[key] = discover(model, *example)
    return table


def structure_of(tree: Any) -> Hashable | None:
    """All that a compiled program depends on: a tree without its arrays' numbers.

    `None` if a static part of the tree cannot be hashed.
    """
    leaves, structure = jax.tree.flatten(tree)
    # 1, 1.0 and True are equal, but not the same program.
    parts = [
        (x.shape, x.dtype, getattr(x, "weak_type", False))
        if _has_shape(x)
        else (x, type(x))
        for x in leaves
    ]
    key = (structure, *parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _has_shape(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
