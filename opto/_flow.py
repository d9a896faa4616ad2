"""Which sites feed which, read off the program of a model without running it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, Literal
from jaxtyping import Array, Bool

from ._axes import begin, follow, Made, made_of, read, Trail


_PREFIX = "opto:"


@dataclasses.dataclass(frozen=True)
class Flow:
    """What the values of a model are made of.

    **Fields:**

    - `sources`: For each site, the sites it is made of with no other site in between,
        and where their axes go. A site not listed here may be made of all before it.
    - `outputs`: The sites that the outputs are made of with no other site in between,
        and which of their entries.
    - `opaque`: Sites that could not be followed through the program.
    - `constants`: The values of sites that are whole numbers and depend on no input or
        weight.
    """

    sources: Mapping[str, Made]
    outputs: Mapping[str, Bool[np.ndarray, "..."]]
    opaque: frozenset[str]
    constants: Mapping[str, np.ndarray]


def mark(name: str, value: Array) -> Array:
    """The value of a site, so that `flow_of` finds it in the traced program."""
    # A value that is known while tracing does not appear in the program.
    return (
        checkpoint_name(value, _PREFIX + name) if isinstance(value, Tracer) else value
    )


def flow_of(traced: ClosedJaxpr, names: Iterable[str]) -> Flow:
    """Which sites feed which in a program whose values `mark` marked.

    A part of the program that repeats or chooses (`scan`, `cond`) counts as one step:
    each of its outputs is made of all its inputs.
    """
    program = traced.jaxpr
    inputs, sites = "", {}
    made: dict[Any, Made] = {v: {inputs: ()} for v in program.invars}
    for step in program.eqns:
        results = follow(step, [made_of(v, made) for v in step.invars])
        name = str(step.params.get("name", ""))
        if step.primitive.name == "name" and name.startswith(_PREFIX):
            name = name.removeprefix(_PREFIX)
            sites[name] = step.invars[0], results[0]
            results = [{name: begin(step.invars[0].aval.shape)}]
        made.update(zip(step.outvars, results, strict=True))
    ends: dict[str, list[Trail]] = {}
    for variable in program.outvars:
        for name, trail in made_of(variable, made).items():
            if name != inputs:
                ends.setdefault(name, []).append(trail)
    return Flow(
        {
            name: {source: x for source, x in origin.items() if source != inputs}
            for name, (_, origin) in sites.items()
        },
        {name: read(x, sites[name][0].aval.shape) for name, x in ends.items()},
        frozenset(name for name in names if name not in sites),
        {
            name: value
            for name, (variable, origin) in sites.items()
            if not origin and (value := _constant(traced, variable)) is not None
        },
    )


def _constant(traced: ClosedJaxpr, variable: Any) -> np.ndarray | None:
    """The value of a variable that is a constant list of whole numbers, else `None`."""
    kind = variable.aval
    if kind.ndim != 1 or not jnp.issubdtype(kind.dtype, jnp.integer):
        return None
    steps, needed = [], {variable}
    for step in reversed(traced.jaxpr.eqns):
        if needed & {*step.outvars}:
            steps.insert(0, step)
            needed |= {v for v in step.invars if not isinstance(v, Literal)}
    consts = zip(traced.jaxpr.constvars, traced.consts, strict=True)
    if any(isinstance(x, Tracer) for v, x in consts if v in needed):
        return None
    only = traced.jaxpr.replace(invars=[], outvars=[variable], eqns=steps)
    with jax.ensure_compile_time_eval():
        (value,) = jaxpr_as_fun(traced.replace(jaxpr=only))()
    return np.asarray(value)
