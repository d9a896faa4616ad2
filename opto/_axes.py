"""Where the axes of a site's value go in the program of a model.

An entry of a later value is made of some entries of the site. This module follows them
axis by axis: an index on an axis of the later value comes from one index on an axis of
the site, or from all of them. If a step of the program is not known here, each of its
outputs counts as made of all its inputs.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal
from jaxtyping import Bool, Int


Index = Int[np.ndarray, " size"]


@dataclasses.dataclass(frozen=True, eq=False)
class Along:
    """An axis of a site in a later value.

    **Fields:**

    - `axis`: The axis of the later value; `None` if the site's axis is mixed or gone.
    - `index`: For each index on that axis, the index on the site's axis that it comes
        from; -1 is none. For a mixed axis, all indices that the value is made of.
    """

    axis: int | None
    index: Index


# One for each axis of a site.
Trail = tuple[Along, ...]
# The sites that a value is made of, each with its trail.
Made = Mapping[str, Trail]

_SAME = set(
    "abs add and atan2 cbrt ceil clamp convert_element_type copy cos cosh div eq erf "
    " erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log "
    "log1p logistic lt max min mul name ne neg nextafter not optimization_barrier or "
    "pow reduce_precision rem round rsqrt select_n sign sin sinh sqrt square "
    "stop_gradient sub tan tanh xor".split()
)
_CALLS = set("jit pjit closed_call custom_jvp_call custom_vjp_call checkpoint".split())


def begin(shape: Sequence[int]) -> Trail:
    """The trail of a site in its own value."""
    return tuple(Along(k, np.arange(size)) for k, size in enumerate(shape))


def follow(step: Any, taken: Sequence[Made]) -> list[Made]:
    """What the outputs of a step of a program are made of.

    **Arguments:** `taken`: What its inputs are made of.
    """
    name = step.primitive.name
    if name in _CALLS and (inner := _inner(step)) is not None:
        made = dict(zip(inner.invars, taken, strict=True))
        return through(inner, made)
    found = []
    for number, out in enumerate(step.outvars):
        every = [
            {site: _step(step, i, number, trail) for site, trail in made.items()}
            for i, made in enumerate(taken)
        ]
        found.append(_union(every, len(getattr(out.aval, "shape", ()))))
    return found


def through(program: Any, made: dict[Any, Made]) -> list[Made]:
    """What the outputs of a program are made of, given what its inputs are made of."""
    for step in program.eqns:
        results = follow(step, [made_of(v, made) for v in step.invars])
        made.update(zip(step.outvars, results, strict=True))
    return [made_of(v, made) for v in program.outvars]


def made_of(variable: Any, made: Mapping[Any, Made]) -> Made:
    """What a variable is made of; a literal is made of nothing."""
    return {} if isinstance(variable, Literal) else made.get(variable, {})


def arrived(
    entries: Bool[np.ndarray, "..."], trail: Trail, rank: int
) -> Bool[np.ndarray, "..."]:
    """The entries of a later value that are made of some entries of a site.

    **Arguments:** `rank`: The number of axes of the later value; the result broadcasts
        over that value.
    """
    kept: dict[int, int] = {}
    found = entries
    for k, along in enumerate(trail):
        there = along.index >= 0
        if found.shape[k] > 1:
            found = np.take(found, np.where(there, along.index, 0), axis=k)
        if not there.all() or not len(there):
            found = found & there.reshape(_line(k, entries.ndim))
        if along.axis is None or along.axis in kept:
            found = np.any(found, axis=(k,), keepdims=True)
        else:
            kept[along.axis] = k
    order = [kept[axis] for axis in sorted(kept)]
    others = [k for k in range(entries.ndim) if k not in order]
    result = [found.shape[kept[axis]] if axis in kept else 1 for axis in range(rank)]
    return np.asarray(found).transpose([*order, *others]).reshape(result)


def read(trails: Iterable[Trail], shape: Sequence[int]) -> Bool[np.ndarray, "..."]:
    """The entries of a site that some later values are made of."""
    found = np.zeros(shape, bool)
    for trail in trails:
        part = np.ones(shape, bool)
        for k, along in enumerate(trail):
            used = np.isin(np.arange(shape[k]), along.index)
            part &= used.reshape(_line(k, len(shape)))
        found |= part
    return found


def _line(k: int, rank: int) -> list[int]:
    """The shape that puts a vector on axis `k` of `rank` axes."""
    return [-1 if axis == k else 1 for axis in range(rank)]


def _inner(step: Any) -> Any:
    """The program inside a step, if it takes the same inputs as the step."""
    for name in ("jaxpr", "call_jaxpr"):
        inner = step.params.get(name)
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and len(inner.invars) == len(step.invars):
            return inner
    return None


def _union(every: Sequence[dict[str, Trail]], rank: int) -> Made:
    found: dict[str, Trail] = {}
    for made in every:
        for site, trail in made.items():
            if site in found:
                pairs = zip(found[site], trail, strict=True)
                trail = tuple(_both(a, b) for a, b in pairs)
            found[site] = trail
    return found


def _both(a: Along, b: Along) -> Along:
    """One axis of a site in a value that is made of the site in two ways."""
    same = a.axis is not None and a.axis == b.axis and len(a.index) == len(b.index)
    if not same or np.any((a.index >= 0) & (b.index >= 0) & (a.index != b.index)):
        return _mixed(a, b)
    return Along(a.axis, np.maximum(a.index, b.index))


def _mixed(*some: Along) -> Along:
    index = np.unique(np.concatenate([along.index for along in some]))
    return Along(None, index[index >= 0])


def _step(step: Any, i: int, number: int, trail: Trail) -> Trail:
    """The axes of a site in an output of a step, given those in its input `i`."""
    return tuple(_goes(step, i, number, along) or _mixed(along) for along in trail)


def _goes(step: Any, i: int, number: int, along: Along) -> Along | None:
    """Where an axis of an input goes; `None` if it is mixed, or not known."""
    if along.axis is None:
        return None
    k, index = along.axis, along.index
    name, params = step.primitive.name, step.params
    before, after = step.invars[i].aval.shape, step.outvars[number].aval.shape
    if name in _SAME or name.startswith("scatter") and i == 0:
        if len(before) != len(after):
            return None
        # These steps may also broadcast axes of length one.
        return Along(k, np.broadcast_to(index, (after[k],)))
    if name == "broadcast_in_dim" and i == 0:
        axis = int(params["broadcast_dimensions"][k])
        return Along(axis, np.broadcast_to(index, (after[axis],)))
    if name == "transpose":
        return Along(list(params["permutation"]).index(k), index)
    if name == "squeeze" or name.startswith(("reduce_", "arg")) and "axes" in params:
        gone = [int(g) for g in params.get("axes", params.get("dimensions"))]
        return None if k in gone else Along(k - sum(g < k for g in gone), index)
    if name.startswith("cum") or name == "sort":
        return None if k == params.get("axis", params.get("dimension")) else along
    if name == "rev":
        return Along(k, index[::-1]) if k in params["dimensions"] else along
    if name == "stack":
        return Along(k + (k >= params["axis"]), index)
    if name == "concatenate":
        return _concatenated(step, i, k, index)
    if name == "split":
        start = sum(params["sizes"][:number])
        cut = slice(start, start + params["sizes"][number])
        return Along(k, index[cut]) if k == params["axis"] else along
    if name == "slice":
        strides = params["strides"] or (1,) * len(before)
        starts, ends = params["start_indices"], params["limit_indices"]
        return Along(k, index[starts[k] : ends[k] : strides[k]])
    if name == "dynamic_slice" and i == 0:
        return _sliced(step, k, index)
    if name == "gather" and i == 1:
        return _looked_up(step, k, index)
    if name == "dot_general":
        return _multiplied(step, i, k, index)
    return _reshaped(before, after, k, index) if name == "reshape" else None


def _concatenated(step: Any, i: int, k: int, index: Index) -> Along:
    if k != (axis := step.params["dimension"]):
        return Along(k, index)
    start = sum(v.aval.shape[axis] for v in step.invars[:i])
    longer = np.full(step.outvars[0].aval.shape[axis], -1)
    longer[start : start + len(index)] = index
    return Along(k, longer)


def _sliced(step: Any, k: int, index: Index) -> Along | None:
    size, start = step.params["slice_sizes"][k], step.invars[1 + k]
    if size == len(index):
        return Along(k, index)
    if not isinstance(start, Literal):
        return None
    first = min(max(int(start.val), 0), len(index) - size)
    return Along(k, index[first : first + size])


def _looked_up(step: Any, k: int, index: Index) -> Along | None:
    """Where an axis of a table's indices goes; the last one holds an index's parts."""
    taken = step.params["dimension_numbers"].offset_dims
    others = [axis for axis in range(step.outvars[0].aval.ndim) if axis not in taken]
    return Along(others[k], index) if k < len(others) else None


def _multiplied(step: Any, i: int, k: int, index: Index) -> Along | None:
    contracted, batched = step.params["dimension_numbers"]
    if k in contracted[i]:
        return None
    if k in batched[i]:
        return Along(list(batched[i]).index(k), index)
    used = [{*contracted[j], *batched[j]} for j in (0, 1)]
    earlier = step.invars[0].aval.ndim - len(used[0]) if i else 0
    place = sum(axis not in used[i] for axis in range(k))
    return Along(len(batched[0]) + earlier + place, index)


def _reshaped(
    before: Sequence[int], after: Sequence[int], k: int, index: Index
) -> Along | None:
    """An axis that stays as it is, or becomes part of a longer one."""
    ends = [math.prod(before[:a]) for a in range(len(before) + 1)]
    for axis, size in enumerate(after):
        # The axes of `before` from `a` to `b` become this one.
        start = math.prod(after[:axis])
        spans = [
            (a, b)
            for a in range(k + 1)
            for b in range(k + 1, len(before) + 1)
            if ends[a] == start and ends[b] == start * size
        ]
        if spans:
            a, b = spans[0]
            places = np.unravel_index(np.arange(size), before[a:b])
            return Along(axis, index[places[k - a]])
    return None
