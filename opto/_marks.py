"""Marked values in a traced program, and an interpreter that visits them.

A marked value passes through a primitive that does nothing when it runs, as in Oryx's
`harvest`. So a submodule can name its output under `vmap`, `scan` and the like.
"""

import dataclasses
import functools
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxprs_in_params, Literal, Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from ._tap import Rows


@dataclasses.dataclass(frozen=True)
class Mark:
    """What is known of a marked value.

    **Fields:**

    - `name`: The site's name; `.0`, `.1`, … is added to what is computed repeatedly.
    - `axes`, `rows`: As for `Tap`, if they were given.
    - `stacked`: Whether a scan runs over the weights of the module.
    - `vmapped`, `scanned`: How many axes `vmap` and `scan` have put in front.
    """

    name: str
    axes: tuple[str, ...] | None = None
    rows: Rows | None = None
    stacked: bool = False
    vmapped: int = 0
    scanned: int = 0

    def names_of(self, rank: int) -> tuple[str, ...]:
        """The names of all axes of a value; raises `ValueError` if they do not fit."""
        scans = tuple(
            ("layer" if self.stacked and not i else "step") + (f"_{i}" if i else "")
            for i in range(self.scanned)
        )
        rest = rank - self.scanned
        numbered = tuple(f"axis_{i}" for i in range(rest))
        given = self.axes
        if given is None:
            return (*scans, *numbered)
        if len(given) == rank and self.scanned:
            return given
        if len(given) == rest:
            return (*scans, *given)
        if len(given) == rest - self.vmapped:
            return (*scans, *numbered[: self.vmapped], *given)
        got = f"{' '.join(given)!r}, but a value with {rank} axes"
        raise ValueError(f"site {self.name!r} has the axes {got}")


mark_p = Primitive("opto_mark")
mark_p.def_impl(lambda x, *, mark: x)
mark_p.def_abstract_eval(lambda x, *, mark: x)
mlir.register_lowering(mark_p, lambda context, x, *, mark: [x])


def _batched(args, dims, *, mark):
    (x,), (dim,) = args, dims
    more = dataclasses.replace(mark, vmapped=mark.vmapped + 1)
    return mark_p.bind(jnp.moveaxis(x, dim, 0), mark=more), 0


def _jvp(primals, tangents, *, mark):
    # `interpret` takes all marks out before anything outside is differentiated.
    raise ValueError(
        f"the model differentiates through {mark.name!r} itself, and an edit would not "
        "reach the derivative; name other submodules in names="
    )


batching.primitive_batchers[mark_p] = _batched
ad.primitive_jvps[mark_p] = _jvp


def mark(x: Array, mark: Mark) -> Array:
    """The same value, which `interpret` finds in a traced program."""
    return mark_p.bind(jnp.asarray(x), mark=mark)


_INLINED = {"jit", "closed_call", "core_call"}
_OWN_DERIVATIVE = {"custom_jvp_call", "custom_vjp_call"}


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _not_differentiated(names: str, x: Array) -> Array:
    return x


@_not_differentiated.defjvp
def _refused(names, primals, tangents):
    raise ValueError(
        f"{names} is computed within a function that has a derivative of its own, "
        "which edits and records do not keep; name others, or take no gradient"
    )


class Visitor(NamedTuple):
    """What happens to marked values.

    **Fields:**

    - `visit`: Takes a value, and returns what the program goes on with.
    - `edit`, `see`: The same in two parts, for values within a scan and the like:
        `edit` is asked for one step at a time; `see` gets all steps afterwards.
    """

    visit: Callable[[Mark, Array], Array]
    edit: Callable[[Mark, Array], Array]
    see: Callable[[Mark, Array], Any]


def interpret(
    program: ClosedJaxpr, args: Sequence[Array], visitor: Visitor
) -> list[Array]:
    """The outputs of a traced program whose marked values a visitor takes.

    **Raises:** `ValueError` for a marked value that cannot leave a `while_loop`.
    """
    several = {name for name, times in _counted(program.jaxpr).items() if times > 1}
    read = _Interpreter(several).program
    return read(program.jaxpr, program.consts, args, visitor, Counter())


def _counted(program: Jaxpr) -> Counter[str]:
    """How often a program computes each marked value; a branch counts once."""
    found: Counter[str] = Counter()
    for step in program.eqns:
        if step.primitive is mark_p:
            found[step.params["mark"].name] += 1
            continue
        inner = [_counted(each) for each in jaxprs_in_params(step.params)]
        join = operator.or_ if step.primitive.name == "cond" else operator.add
        found += functools.reduce(join, inner, Counter())
    return found


class _Interpreter:
    def __init__(self, several: set[str]):
        self._several = several

    def program(
        self,
        program: Jaxpr,
        consts: Sequence[Any],
        args: Sequence[Any],
        visitor: Visitor,
        seen: Counter[str],
    ) -> list[Any]:
        """The outputs of a program. `seen` counts the marks visited before."""
        names = (*program.constvars, *program.invars)
        values: dict[Any, Any] = dict(zip(names, (*consts, *args), strict=True))
        read = lambda x: x.val if isinstance(x, Literal) else values[x]
        for step in program.eqns:
            given = [read(x) for x in step.invars]
            if step.primitive is mark_p:
                out = [visitor.visit(self._numbered(step.params["mark"], seen), *given)]
            elif not _counted_in(step):
                with step.ctx.manager:
                    params = step.primitive.get_bind_params(step.params)
                    out = step.primitive.bind(*given, **params)
                out = out if step.primitive.multiple_results else [out]
            else:
                out = self._within(step, given, visitor, seen)
            values.update(zip(step.outvars, out, strict=True))
        return [read(x) for x in program.outvars]

    def _numbered(self, mark: Mark, seen: Counter[str]) -> Mark:
        if mark.name not in self._several:
            return mark
        number = seen[mark.name]
        seen[mark.name] += 1
        return dataclasses.replace(mark, name=f"{mark.name}.{number}")

    def _within(self, step, given, visitor, seen) -> Sequence[Any]:
        kind, params = step.primitive.name, step.params
        if kind == "scan":
            return self._scan(params, given, visitor, seen)
        if kind == "cond":
            return self._cond(params["branches"], given, visitor, seen)
        if kind in ("checkpoint", "remat2"):  # The name depends on JAX's version.
            return self._checkpoint(params, given, visitor, seen)
        inner = params.get("jaxpr", params.get("call_jaxpr"))
        names = ", ".join(map(repr, _counted_in(step)))
        if kind in _INLINED | _OWN_DERIVATIVE and inner is not None:
            consts = getattr(inner, "consts", ())
            inner = getattr(inner, "jaxpr", inner)
            if kind in _OWN_DERIVATIVE:
                # Of the inputs: the function's own steps may have no derivative.
                given = [_not_differentiated(names, x) for x in given]
            return self.program(inner, consts, given, visitor, seen)
        raise ValueError(
            f"the value of {names} is computed within a {kind!r} and cannot leave it; "
            "name other submodules in names="
        )

    def _collected(self, visitor: Visitor, seen: Counter[str], wrap=None):
        """A visitor within a part of the program, and what it collects."""
        found: list[tuple[Mark, Array]] = []
        edit = wrap or visitor.edit

        def see(mark: Mark, value: Array) -> None:
            found.append((mark, value))

        def visit(mark: Mark, value: Array) -> Array:
            see(mark, value)
            return edit(mark, value)

        return Visitor(visit, edit, see), found, Counter(seen)

    def _scan(self, params, given, visitor, seen):
        most = params["num_consts"]
        consts, rest = given[:most], given[most:]
        carry, xs = rest[: params["num_carry"]], rest[params["num_carry"] :]
        inner, length = params["jaxpr"], params["length"]
        marks: list[Any] = []

        def body(carry, step):
            index, *x = step

            def edit(mark: Mark, value: Array) -> Array:
                # An edit sees all steps, and this one's values are right.
                every = jnp.broadcast_to(value, (length, *value.shape))
                new = visitor.edit(_scanned(mark), every)
                return jax.lax.dynamic_index_in_dim(new, index, keepdims=False)

            within, found, again = self._collected(visitor, seen, edit)
            out = self.program(
                inner.jaxpr, inner.consts, [*consts, *carry, *x], within, again
            )
            marks[:] = again, [_scanned(mark) for mark, _ in found]
            ends = len(carry)
            return out[:ends], (out[ends:], [value for _, value in found])

        carry, (ys, values) = jax.lax.scan(
            body,
            carry,
            (jnp.arange(length), *xs),
            length,
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        _seen(visitor, seen, marks[0], marks[1], values)
        return [*carry, *ys]

    def _cond(self, branches, given, visitor, seen):
        index, *args = given
        shapes: dict[Mark, jax.ShapeDtypeStruct] = {}  # Of what any branch marks.
        counts = Counter(seen)

        def outputs(branch, *args):
            within, found, again = self._collected(visitor, seen)
            out = self.program(branch.jaxpr, branch.consts, args, within, again)
            counts.update({k: n - counts[k] for k, n in again.items() if n > counts[k]})
            shapes.update({m: jax.ShapeDtypeStruct(x.shape, x.dtype) for m, x in found})
            return out, dict(found)

        def called(branch, *args):
            out, found = outputs(branch, *args)
            every = [found.get(m, _absent(shape)) for m, shape in shapes.items()]
            return out, every

        for branch in branches:
            jax.eval_shape(lambda *args, b=branch: outputs(b, *args)[0], *args)
        calls = [functools.partial(called, branch) for branch in branches]
        out, values = jax.lax.switch(index, calls, *args)
        _seen(visitor, seen, counts, shapes, values)
        return out

    def _checkpoint(self, params, given, visitor, seen):
        marks: list[Any] = []

        def call(*args):
            within, found, again = self._collected(visitor, seen)
            out = self.program(params["jaxpr"], (), args, within, again)
            marks[:] = again, [mark for mark, _ in found]
            return out, [value for _, value in found]

        kept = {name: params[name] for name in ("prevent_cse", "policy")}
        out, values = jax.checkpoint(call, **kept)(*given)
        _seen(visitor, seen, marks[0], marks[1], values)
        return out


def _counted_in(step: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for inner in jaxprs_in_params(step.params):
        found += _counted(inner)
    return found


def _seen(visitor: Visitor, seen: Counter, counts: Counter, marks, values) -> None:
    """Visits what a part of the program has marked."""
    seen.update(counts - seen)
    for mark, value in zip(marks, values, strict=True):
        visitor.see(mark, value)


def _scanned(mark: Mark) -> Mark:
    return dataclasses.replace(mark, scanned=mark.scanned + 1)


def _absent(shape: jax.ShapeDtypeStruct) -> Array:
    """What a site holds where its branch was not taken: NaN, or 0 for whole numbers."""
    inexact = jnp.issubdtype(shape.dtype, jnp.inexact)
    return jnp.full(shape.shape, jnp.nan if inexact else 0, shape.dtype)
