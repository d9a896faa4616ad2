"""Running a model while recording and editing its sites."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ._edit import Edit
from ._site import discover, one_example, Site, Sites
from ._tap import identity, VisitorTap


Reducer = Callable[[Array], Any]
Request = str | Iterable[str] | Mapping[str, Reducer | None]


class Record(eqx.Module, Mapping[str, Any]):
    """What was recorded, by the name of the site; a pytree.

    `record["blocks.1.attn.pattern"]`; an unknown name raises `KeyError` with the names
    there are.
    """

    _values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise KeyError(f"{name!r} was not recorded; there is {', '.join(self)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def run(
    model: Callable[..., Any],
    *inputs: Any,
    record: Request = (),
    edits: Sequence[Edit] = (),
) -> tuple[PyTree, Record]:
    """Runs a model in one compiled call, recording some sites and editing others.

    The arrays inside of edits are arguments of the compiled program: another head,
    value or strength does not compile again; another kind or number of edits does, as
    do more selected heads than before and another reducer (a `lambda` written anew is
    another one).

    **Arguments:**

    - `model`: A callable module that takes `tap=`, written for one example.
    - `inputs`: One example. If the model says which axes an example has
        (`input_axes = ("seq d_model", …)`, one string for each input), also batches of
        examples, with any number of leading axes.
    - `record`: A site's name or a glob (`"blocks.*.attn.pattern"`), several of them, or
        a mapping from those to a reducer, a function of one example's value that runs
        inside of the compiled program (`None` keeps the whole value).
    - `edits`: Applied in the order given. What is recorded is the edited value.

    **Returns:**

    The model's output and the `Record`, both with the batch axes in front.

    **Raises:** `ValueError` before anything is traced for a site that does not exist
    (with the nearest name), an axis that the site does not have, an index out of range
    or a value that does not fit.
    """
    example, lead = one_example(model, inputs)
    table = known_sites(model, example)
    requests = _requests(record, table)
    edits = check(edits, table)
    return _run(model, inputs, edits, tuple(requests.items()), lead)


def visit(
    fn: Callable[..., Any],
    *args: Any,
    record: Request = (),
    edits: Sequence[Edit] = (),
) -> tuple[PyTree, Record]:
    """As `run` on one example, for any function and uncompiled.

    For use within one's own `jit`, `vmap` and `grad`: `fn(*args, tap=)` may be a loss,
    a module's method or a module.
    """
    if not edits and not record:
        return fn(*args, tap=identity), Record({})
    table = discover(fn, *args)
    edits = check(edits, table)
    return _visit(fn, args, edits, _requests(record, table), table)


def lift(fn: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Turns `fn(*args, tap=)` into `fn(*args, edits=())`: a function under edits.

    The result can be compiled, mapped and differentiated, in the arguments and in the
    edits: `eqx.filter_value_and_grad(opto.lift(loss))(model, batch, edits=edits)`.
    """

    def lifted(*args: Any, edits: Sequence[Edit] = ()) -> PyTree:
        return visit(fn, *args, edits=edits)[0]

    return lifted


@eqx.filter_jit
def _run(model, inputs, edits, requests, lead):
    def one(*example):
        table = discover(model, *example)
        return _visit(model, example, edits, dict(requests), table)

    for _ in range(lead):
        one = eqx.filter_vmap(one)
    return one(*inputs)


def _visit(fn, args, edits, requests, table: Sites):
    by_site: dict[str, list[Edit]] = {}
    for edit in edits:
        for site in table.match(edit.site):
            by_site.setdefault(site.name, []).append(edit)
    wanted = by_site.keys() | requests.keys()
    seen: set[str] = set()
    values: dict[str, Any] = {}

    def tapped(name: str, value: Array, axes: tuple[str, ...]) -> Array:
        if name not in wanted:
            return value
        seen.add(name)
        value = jnp.asarray(value)  # Of a NumPy array, JAX's dtype.
        site = Site(name, axes, value.shape, value.dtype)
        for edit in by_site.get(name, ()):
            value = edit(value, site)
        if name in requests:
            reduce = requests[name]
            values[name] = value if reduce is None else reduce(value)
        return value

    def below(scope: str) -> bool:
        return any(name == scope or name.startswith(scope + ".") for name in wanted)

    out = fn(*args, tap=VisitorTap(tapped, below))
    if missed := wanted - seen:
        names = ", ".join(sorted(missed))
        raise RuntimeError(f"the model listed {names} but did not compute it this time")
    return out, Record({name: values[name] for name in table if name in values})


def check(edits: Iterable[Edit], table: Sites) -> tuple[Edit, ...]:
    """The edits; raises `ValueError` unless each can apply to a model's sites."""
    if not isinstance(edits, Iterable):
        raise ValueError(f"edits is a sequence of edits, got one: write [{edits!r}]")
    edits = tuple(edits)
    for edit in edits:
        if not isinstance(edit, Edit):
            kind = type(edit).__name__
            wanted = "edits are opto.Edit values (swept ones go to opto.sweep)"
            raise ValueError(f"{wanted}, got {kind}: {edit!r}")
        edit.check(table.match(edit.site))
    return edits


def _requests(record: Request, table: Sites) -> dict[str, Reducer | None]:
    if isinstance(record, str):
        record = (record,)
    if not isinstance(record, Iterable):
        kind = type(record).__name__
        raise ValueError(f"record is a site, several or a mapping, got {kind}")
    if not isinstance(record, Mapping):
        record = dict.fromkeys(record)
    requests: dict[str, Reducer | None] = {}
    for pattern, reduce in record.items():
        if reduce is not None and not callable(reduce):
            raise ValueError(f"the reducer of {pattern!r} is not callable: {reduce!r}")
        for site in table.match(pattern):
            if requests.get(site.name, reduce) is not reduce:
                raise ValueError(f"record asks twice for {site.name!r}, differently")
            requests[site.name] = reduce
    return requests


_TABLES: dict[Any, Sites] = {}


def known_sites(model, example) -> Sites:
    """`discover`, remembered for models and inputs of the same structure.

    It costs a trace of the model, which a loop over small runs would pay every time.
    """
    shapes, static = eqx.partition((model, example), _has_shape)
    leaves, structure = jax.tree.flatten(shapes)
    dims = tuple((jax.numpy.shape(x), jax.numpy.result_type(x)) for x in leaves)
    rest, rest_structure = jax.tree.flatten(static)
    try:
        # 1, 1.0 and True are equal, but not the same program.
        kinds = tuple(type(leaf) for leaf in rest)
        key = (structure, dims, tuple(rest), kinds, rest_structure)
        hash(key)
    except TypeError:  # A static part that cannot be hashed: look every time.
        return discover(model, *example)
    if key not in _TABLES:
        if len(_TABLES) >= 256:
            _TABLES.clear()
        _TABLES[key] = discover(model, *example)
    return _TABLES[key]


def _has_shape(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
