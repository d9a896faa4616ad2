"""Running a model while recording and editing its sites."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from ._derived import Derived, Given
from ._edit import AbstractEdit, Edit, several
from ._effects import check_effects
from ._grafted import grafted_models
from ._observed import Observed
from ._record import Record
from ._reference import split
from ._site import find_sites, known_sites, one_example, Site, Sites
from ._tap import identity, Rows, VisitorTap
from ._together import alternatives, check_before_graft, check_together
from .graft import Graft, of_model, swapped
from .hints import brief


Reducer = Callable[[Array], Any]
Request = str | Iterable[str] | Mapping[str, Reducer | None]
# What derived edits require of the inputs, by message: true where it holds.
Findings = dict[str, Array]


def run(
    model: Callable[..., Any],
    *inputs: Any,
    record: Request = (),
    edits: Sequence[AbstractEdit] = (),
) -> tuple[PyTree, Record]:
    """Runs a model in one compiled call, recording some sites and editing others.

    The arrays inside of edits are arguments of the compiled program, so another head,
    value or strength does not compile again. Another kind or number of edits does, and
    so does another number of selected heads or another reducer (a `lambda` that is
    written again is another one).

    **Arguments:**

    - `model`: A callable module that takes `tap=`, written for one example.
    - `inputs`: One example. If the model says which axes an example has
        (`input_axes = ("seq d_model", …)`, one string for each input), batches work
        too, with any number of leading axes.
    - `record`: A site's name or a glob (`"blocks.*.attn.pattern"`), several of them, or
        a mapping from those to a reducer. A reducer is a function of one example's
        value and runs inside of the compiled program (`None` keeps the whole value).
    - `edits`: Applied in the order given. What is recorded is the edited value.

    **Returns:**

    The model's output and the `Record`, both with the batch axes in front.

    **Raises:** `ValueError` before anything is traced for a site that does not exist
    (with the nearest name), an axis that the site does not have, an index out of range,
    a value that does not fit, or an edit that changes neither the output nor the
    record.
    """
    return _carried_out(model, inputs, record, edits, check_seen)


def run_within(
    model: Callable[..., Any],
    *inputs: Any,
    record: Request = (),
    edits: Sequence[AbstractEdit] = (),
) -> tuple[PyTree, Record]:
    """As `run`, for a function that adds its own edits to the user's edits.

    The function's own edits may undo the user's edits; that is not the user's mistake.
    """
    return _carried_out(model, inputs, record, edits, check_given)


def _carried_out(model, inputs, record, edits, check_all) -> tuple[PyTree, Record]:
    edits = as_edits(edits)
    if any(isinstance(edit, Graft) for edit in edits):
        example, _ = one_example(model, inputs)
        check_before_graft(edits, known_sites(model, example))
    model, inputs, edits = swapped(model, inputs, edits)
    example, lead = one_example(model, inputs)
    table = known_sites(model, example)
    requests = _requests(record, table)
    mapped, rest, seen = split(edits, table, batch_shape(inputs, lead))
    check_all(seen, table, requests)
    _check_donors(model, inputs, seen, table)
    out, values, findings = _run(
        model, inputs, mapped, rest, tuple(requests.items()), lead
    )
    _raise(findings)
    return out, values


def visit(
    fn: Callable[..., Any],
    *args: Any,
    record: Request = (),
    edits: Sequence[AbstractEdit] = (),
) -> tuple[PyTree, Record]:
    """As `run` on one example, for any function, and not compiled.

    Use it within your own `jit`, `vmap` and `grad`. `fn(*args, tap=)` may be a loss, a
    module's method or a module.
    """
    return _visited(fn, args, record, edits, check_seen)


def visit_within(
    fn: Callable[..., Any],
    *args: Any,
    record: Request = (),
    edits: Sequence[AbstractEdit] = (),
) -> tuple[PyTree, Record]:
    """As `visit`, for a function that adds its own edits; see `run_within`."""
    return _visited(fn, args, record, edits, check_given)


def _visited(fn, args, record, edits, check_all) -> tuple[PyTree, Record]:
    fn, args, edits = swapped(fn, args, as_edits(edits))
    if not edits and not record:
        return fn(*args, tap=identity), Record({})
    table = find_sites(fn, *args)
    requests = _requests(record, table)
    check_all(edits, table, requests)
    _check_donors(fn, args, edits, table)
    out, values, findings = _visit(fn, args, edits, requests, table)
    _raise(findings)
    return out, values


def lift(fn: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Turns `fn(*args, tap=)` into `fn(*args, edits=())`: a function under edits.

    The result can be compiled, mapped and differentiated, in the arguments and in the
    edits: `eqx.filter_value_and_grad(opto.lift(loss))(model, batch, edits=edits)`.
    """

    def lifted(*args: Any, edits: Sequence[AbstractEdit] = ()) -> PyTree:
        return visit(fn, *args, edits=edits)[0]

    return lifted


@eqx.filter_jit
def _run(model, inputs, mapped, rest, requests, lead):
    def one(mapped, *example):
        table = known_sites(model, example)
        edits = rest if mapped is None else eqx.combine(mapped, rest)
        return _visit(model, example, edits, dict(requests), table)

    for _ in range(lead):
        one = eqx.filter_vmap(one)
    return one(mapped, *inputs)


def _visit(fn, args, edits, requests, table: Sites) -> tuple[PyTree, Record, Findings]:
    findings: Findings = {}
    edits = _resolved(fn, args, edits, table, findings)
    by_site: dict[str, list[Edit]] = {}
    for edit in edits:
        for site in table.match(edit.site):
            by_site.setdefault(site.name, []).append(edit)
    wanted = by_site.keys() | requests.keys()
    seen: set[str] = set()
    values: dict[str, Any] = {}

    def tapped(
        name: str, value: Array, axes: tuple[str, ...], rows: Rows | None
    ) -> Array:
        if name not in wanted:
            return value
        seen.add(name)
        value = jnp.asarray(value)  # A NumPy array gets JAX's dtype.
        site = Site(name, axes, value.shape, value.dtype, rows)
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
        raise RuntimeError(f"the model did not compute sites that it listed: {names}")
    axes = {name: None if requests[name] else table[name].axes for name in values}
    record = Record(
        {name: values[name] for name in table if name in values},
        tuple((name, axes[name]) for name in table if name in values),
        tuple((n, rows) for n in table if axes.get(n) and (rows := table[n].rows)),
    )
    return out, record, findings


def _resolved(
    fn, args, edits: Sequence[AbstractEdit], table: Sites, findings: Findings
) -> tuple[Edit, ...]:
    """The edits of sites that a list of edits becomes on these inputs."""
    edits = tuple(itertools.chain(*map(alternatives, edits)))
    derived = [edit for edit in edits if isinstance(edit, Derived)]
    if not derived:
        return cast(tuple[Edit, ...], edits)

    def again(*, edits, record, model):
        other, theirs = (fn, args) if model is None else of_model(fn, args, model)
        other, theirs, edits = swapped(other, theirs, edits)
        same = other is fn and theirs is args
        there = table if same else find_sites(other, *theirs)
        requests = _requests(record, there)
        check_given(edits, there, requests)
        _, values, found = _visit(other, theirs, edits, requests, there)
        findings.update(found)
        return values

    def require(condition: Array, message: str) -> None:
        findings[message] = condition & findings.get(message, True)

    # One base run for all of them.
    needs = dict.fromkeys(itertools.chain(*(edit.needs(table) for edit in derived)))
    base = again(edits=(), record=needs, model=None) if needs else Record({})
    resolved: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Derived):
            before = tuple(resolved)
            new = edit.derive(Given(table, base, before, again, require))
            for part in new:
                part.check_values(table.match(part.site))
            resolved.extend(new)
        else:
            resolved.append(cast(Edit, edit))
    return tuple(resolved)


def batch_shape(inputs: tuple[Any, ...], lead: int) -> tuple[int, ...]:
    """The lengths of the `lead` batch axes of a model's inputs."""
    return np.shape(inputs[0])[:lead] if lead else ()


def _raise(findings: Findings) -> None:
    """Raises `ValueError` if the inputs are known not to be what an edit requires."""
    for message, right in findings.items():
        if not isinstance(right, Tracer) and not np.all(right):
            wrong = np.sum(~np.asarray(right))
            raise ValueError(f"{message} (in {wrong} of {np.size(right)} sequences)")


def _check_donors(
    fn: Any, args: tuple[Any, ...], edits: Sequence[AbstractEdit], table: Sites
) -> None:
    """Checks the edits of grafted models now; while tracing, indices are not known."""
    for donor in grafted_models(fn, args, edits, table):
        lead = one_example(donor.fn, donor.args)[1]
        own = split(donor.edits, donor.table, batch_shape(donor.args, lead))[2]
        check_given(own, donor.table, ())
        check_effects(own, donor.table, donor.seen)
        _check_donors(donor.fn, donor.args, own, donor.table)


def as_edits(edits: Iterable[AbstractEdit]) -> tuple[AbstractEdit, ...]:
    """The edits as a tuple; raises `ValueError` unless all of them are edits."""
    edits = several(edits)
    for edit in edits:
        if not isinstance(edit, AbstractEdit):
            kind = type(edit).__name__
            wanted = "edits are opto.Edit values (swept ones go to opto.sweep)"
            raise ValueError(f"{wanted}, got {kind}: {brief(edit)}")
    return edits


def check(
    edits: Iterable[AbstractEdit], table: Sites, *, record: Request = ()
) -> tuple[AbstractEdit, ...]:
    """The edits; raises `ValueError` unless they can apply to a model's sites.

    Also raises for an edit that changes neither the outputs nor what is recorded.
    """
    edits = as_edits(edits)
    if not isinstance(table, Sites):
        raise ValueError(f"table is what opto.sites gives, got {brief(table)}")
    check_seen(edits, table, _requests(record, table))
    return edits


def check_call(
    fn: Callable[..., Any], *args: Any, edits: Iterable[AbstractEdit]
) -> tuple[AbstractEdit, ...]:
    """The edits; raises `ValueError` unless they can apply to `fn(*args, tap=)`.

    As `check`, and also checks the edits of grafted models. `args` are one example.
    """
    edits = as_edits(edits)
    fn, args, own = swapped(fn, args, edits)
    table = find_sites(fn, *args)
    check_seen(own, table, ())
    _check_donors(fn, args, own, table)
    return edits


def check_seen(
    edits: Sequence[AbstractEdit], table: Sites, recorded: Collection[str]
) -> None:
    """Raises `ValueError` for edits that cannot apply, or change nothing."""
    check_given(edits, table, recorded)
    check_effects(edits, table, Observed.too(recorded))


def check_given(
    edits: Sequence[AbstractEdit], table: Sites, recorded: Collection[str]
) -> None:
    """Raises `ValueError` for edits that cannot apply, or contradict each other."""
    for edit in edits:
        edit.check(table)
    check_together(edits, table, recorded)


def _requests(record: Request, table: Sites) -> dict[str, Reducer | None]:
    if isinstance(record, str):
        record = (record,)
    if not isinstance(record, Iterable):
        kind = type(record).__name__
        raise ValueError(f"record is a site, several sites or a mapping, got {kind}")
    named = isinstance(record, Mapping)
    asked = record.items() if named else ((site, None) for site in record)
    requests: dict[str, Reducer | None] = {}
    for pattern, reduce in asked:
        if reduce is not None and not callable(reduce):
            raise ValueError(
                f"the reducer of {pattern!r} is not callable: {brief(reduce)}"
            )
        for site in table.match(pattern):
            if requests.get(site.name, reduce) is not reduce:
                twice = f"record asks for {site.name!r} twice"
                raise ValueError(f"{twice}, with different reducers")
            requests[site.name] = reduce
    return requests
