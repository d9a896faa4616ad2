"""Running a model while recording and editing its sites."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from ._batched import split
from ._check_edits import as_edits, check_before_graft, check_donors, check_given
from ._derived import Derived, RunContext
from ._discover import find_sites, known_sites
from ._edit import AbstractEdit, Edit
from ._effects import (
    Change,
    Effect,
    EffectTable,
    largest_difference,
    LeaveOneOut,
    Place,
    placed,
    warn_without_effect,
)
from ._examples import batch_shape, one_example
from ._flat import Flat, Static
from ._record import Record, Request, requested
from ._site import Site, Sites
from ._stack import alternatives
from ._tap import identity, Rows, VisitorTap
from ._where import Where
from .graft import Graft, of_model, swapped


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

    **Raises:** `ValueError` before anything is compiled for a site that does not exist
    (with the nearest name), an axis that the site does not have, an index out of range,
    a value that does not fit, or a strength of 0.

    **Warns:** `NoEffectWarning` for an edit that changes no entry of its sites, in any
    example. Within your own `jit` nothing is measured.
    """
    ran = ran_with(model, inputs, record, as_edits(edits))
    raise_wrong(ran.findings)
    ran.warn()
    return ran.outputs, ran.record


@dataclasses.dataclass(frozen=True)
class Ran:
    """A run with what was found out about its edits.

    **Fields:**

    - `edits`, `table`: The edits and the sites of the model that gave the outputs.
    - `findings`: What derived edits require of the inputs.
    - `changes`: By place in `edits`, what an edit changes.
    """

    outputs: PyTree
    record: Record
    edits: tuple[AbstractEdit, ...]
    table: Sites
    findings: Findings
    changes: dict[Place, Change]

    def warn(self, when: str = "on these inputs", stacklevel: int = 3) -> None:
        """Warns of edits without effect."""
        entries = {place: change.entries for place, change in self.changes.items()}
        warn_without_effect(
            self.edits,
            entries,
            self.table,
            [*self.record],
            when,
            stacklevel + 1,
        )


def ran_with(
    model: Any,
    inputs: tuple[Any, ...],
    record: Request,
    edits: Sequence[AbstractEdit],
) -> Ran:
    """`run` without its errors and warnings about the inputs."""
    if any(isinstance(edit, Graft) for edit in edits):
        example, _ = one_example(model, inputs)
        check_before_graft(edits, known_sites(model, example))
    model, inputs, edits = swapped(model, inputs, edits)
    example, lead = one_example(model, inputs)
    flat = Flat(model)
    table = known_sites(model, example, flat)
    requests = requested(record, table)
    mapped, rest, seen = split(edits, table, batch_shape(inputs, lead))
    check_given(seen, table, requests)
    check_donors(model, inputs, seen)
    call = Flat((inputs, mapped, rest, tuple(requests.items()), lead))
    out, values, findings, changes = _run(*flat.partition(), *call.partition())
    return Ran(out, values, edits, table, findings, changes)


def effects(
    model: Callable[..., Any], *inputs: Any, edits: Sequence[AbstractEdit]
) -> EffectTable:
    """What each edit of a list changes; prints as a table.

    **Arguments:** As for `run`.

    **Returns:**

    An `Effect` for each edit: how many entries of its sites differ from what they would
    be without it, by how much at most, and how much the outputs change if this edit is
    left out.

    **Raises:** `ValueError` as `run`.
    """
    edits = as_edits(edits)
    ran = ran_with(model, inputs, (), edits)
    raise_wrong(ran.findings)
    places = {id(edit): place for place, edit in placed(ran.edits)}
    found = []
    for i, edit in enumerate(edits):
        # A graft of the last layers runs as a graft of this model's first layers.
        change = ran.changes.get(places.get(id(edit), (0,)), Change.none())
        without = ran_with(model, inputs, (), (*edits[:i], *edits[i + 1 :]))
        outputs = largest_difference(ran.outputs, without.outputs)
        entries = int(np.asarray(change.entries).sum(dtype=np.int64))
        found.append(
            Effect(edit, entries, float(np.max(np.asarray(change.largest))), outputs)
        )
    return EffectTable(found)


def visit(
    fn: Callable[..., Any],
    *args: Any,
    record: Request = (),
    edits: Sequence[AbstractEdit] = (),
) -> tuple[PyTree, Record]:
    """As `run` on one example, for any function, and not compiled.

    Use it within your own `jit`, `vmap` and `grad`; there, no edit is measured.
    `fn(*args, tap=)` may be a loss, a module's method or a module.
    """
    if not edits and not record:
        return fn(*args, tap=identity), Record({})
    fn, args, edits = swapped(fn, args, as_edits(edits))
    table = find_sites(fn, *args)
    requests = requested(record, table)
    check_given(edits, table, requests)
    check_donors(fn, args, edits)
    measured = LeaveOneOut(edits)
    out, values, findings = _visit(fn, args, edits, requests, table, measured)
    raise_wrong(findings)
    Ran(out, values, edits, table, findings, measured.changes).warn()
    return out, values


def lift(fn: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Turns `fn(*args, tap=)` into `fn(*args, edits=())`: a function under edits.

    The result can be compiled, mapped and differentiated, in the arguments and in the
    edits: `eqx.filter_grad(opto.toolkit.lift(loss))(model, batch, edits=edits)`.
    """

    def lifted(*args: Any, edits: Sequence[AbstractEdit] = ()) -> PyTree:
        return visit(fn, *args, edits=edits)[0]

    return lifted


def _run(arrays, static: Static, given, call: Static):
    """Runs in one compiled call, and waits for its end."""
    try:
        found, rest = _compiled(arrays, static, given, call)
        jax.block_until_ready(found[:1])
    except jax.errors.JaxRuntimeError:
        # Equinox tells what its `error_if` found; its call takes twice as long.
        found, rest = eqx.filter_jit(_in_parts)(arrays, static, given, call)
    return rest.with_arrays(found)


def _in_parts(arrays, static: Static, given, call: Static):
    """What `jax.jit` can return: the arrays, and the rest."""
    model = static.with_arrays(arrays)
    inputs, mapped, rest, requests, lead = call.with_arrays(given)

    def one(mapped, *example):
        table = known_sites(model, example)
        edits = rest if mapped is None else eqx.combine(mapped, rest)
        measured = LeaveOneOut(edits)
        found = _visit(model, example, edits, dict(requests), table, measured)
        return *found, measured.changes

    for _ in range(lead):
        one = eqx.filter_vmap(one)
    return Flat(one(mapped, *inputs)).partition()


_compiled = jax.jit(_in_parts, static_argnums=(1, 3))


def _visit(
    fn, args, edits, requests, table: Sites, measured: LeaveOneOut
) -> tuple[PyTree, Record, Findings]:
    findings: Findings = {}
    by_site: dict[str, list[tuple[Place | None, Edit]]] = {}
    for place, edit in _resolved(fn, args, edits, table, findings, measured):
        for site in table.match(edit.site):
            by_site.setdefault(site.name, []).append((place, edit))
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
        if here := by_site.get(name):
            value = _edited(value, site, here, measured)
        if name in requests:
            reduce = requests[name]
            values[name] = value if reduce is None else reduce(value)
        return value

    def below(scope: str) -> bool:
        return any(name == scope or name.startswith(scope + ".") for name in wanted)

    def edited(
        name: str, value: Array, axes: tuple[str, ...], rows: Rows | None
    ) -> Array:
        site = Site(name, axes, value.shape, value.dtype, rows)
        for _, change in by_site.get(name, ()):
            value = change(value, site)
        return value

    out = fn(*args, tap=VisitorTap(tapped, below, edit=edited))
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


def _edited(
    value: Array,
    site: Site,
    edits: Sequence[tuple[Place | None, Edit]],
    measured: LeaveOneOut,
) -> Array:
    """A site's value under edits; measures each against the value without it."""

    def without(left_out: Place | None) -> Array:
        new = value
        for place, edit in edits:
            if left_out is None or place != left_out:
                new = edit(new, site)
        return new

    new = without(None)
    for place in dict.fromkeys(place for place, _ in edits if place is not None):
        measured.note(place, new, without(place))
    return new


def _resolved(
    fn,
    args,
    edits: Sequence[AbstractEdit],
    table: Sites,
    findings: Findings,
    measured: LeaveOneOut,
) -> list[tuple[Place | None, Edit]]:
    """The edits of sites that a list of edits becomes on these inputs.

    Each comes with the place of the edit that it belongs to.
    """
    every = [(measured.place(e), part) for e in edits for part in alternatives(e)]
    derived = [edit for _, edit in every if isinstance(edit, Derived)]
    named = [where.named_tokens() for where in _selections(every)]
    if not derived and not any(named):
        return cast(list[tuple[Place | None, Edit]], every)

    def again(*, edits, record, model):
        other, theirs = (fn, args) if model is None else of_model(fn, args, model)
        other, theirs, edits = swapped(other, theirs, edits)
        same = other is fn and theirs is args
        there = table if same else find_sites(other, *theirs)
        requests = requested(record, there)
        check_given(edits, there, requests)
        _, values, found = _visit(other, theirs, edits, requests, there, measured)
        findings.update(found)
        return values

    def require(condition: Array, message: str) -> None:
        findings[message] = condition & findings.get(message, True)

    # One base run for all of them.
    needs = dict.fromkeys(
        itertools.chain(*(edit.needs(table) for edit in derived), *named)
    )
    base = again(edits=(), record=needs, model=None) if needs else Record({})
    resolved: list[tuple[Place | None, Edit]] = []
    for place, edit in every:
        if isinstance(edit, Derived):
            before = tuple(part for _, part in resolved)
            new = edit.derive(RunContext(table, base, before, again, require))
            for part in (_with_tokens(part, base) for part in new):
                part.check_values(table.match(part.site))
                resolved.append((place, part))
        else:
            resolved.append((place, _with_tokens(cast(Edit, edit), base)))
    return resolved


def _selections(edits: Sequence[tuple[Any, Any]]) -> list[Where]:
    """All selections of edits, also those inside of others."""
    is_where = lambda x: isinstance(x, Where)
    leaves = jax.tree.leaves([edit for _, edit in edits], is_leaf=is_where)
    return [leaf for leaf in leaves if is_where(leaf)]


def _with_tokens(edit: Edit, base: Record) -> Edit:
    """The edit with tokens that were selected by name found."""
    if not edit.where.named_tokens():
        return edit
    return eqx.tree_at(lambda e: e.where, edit, edit.where.with_tokens(base))


def raise_wrong(findings: Findings) -> None:
    """Raises `ValueError` if the inputs are known not to be what an edit requires."""
    for message, right in findings.items():
        if not isinstance(right, Tracer) and not np.all(right):
            wrong = np.sum(~np.asarray(right))
            raise ValueError(f"{message} (in {wrong} of {np.size(right)} sequences)")
