"""Prompting strategies of Garg et al. (2022) and limits_of_icl as shifts of ours.

A setting with which those codes changed nothing is an error, which names the setting
of ours that does what was meant.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..tasks.functions import InputShift
from ..tasks.functions.shifts import (
    OppositeQuery,
    OrthantContext,
    OrthogonalQuery,
    OverlappingQuery,
    ScaledQuery,
    SkewedInputs,
    SubspaceInputs,
)
from ._config import check_known


def published_shift(
    strategy: str, arguments: Mapping[str, Any], *, points: int, dim: int
) -> InputShift | None:
    """The shift of a prompting strategy; `None` for `standard`.

    **Arguments:**

    - `strategy`, `arguments`: `prompting_strategy` and `prompting_strategy_kwargs`.
    - `points`, `dim`: The size of a prompt, whose last point is the query.

    **Raises:** `ValueError` for a strategy or an argument that does not exist, and for
    settings with which the public code changes nothing.
    """
    check_known("no prompting strategy", [strategy], _SHIFTS)
    name, make = _SHIFTS[strategy]
    for given in arguments:
        if given != name:
            known = name or "none"
            raise ValueError(f"{strategy} has no argument {given!r}; known: {known}")
    value = arguments.get(name)
    if strategy == "opposite_quadrants" and value is not None:
        why = "flips random signs of a query whose signs are random"
        ours = f"OppositeQuery({value}), or OrthantContext() for that distribution"
        raise ValueError(f"{strategy} with {name}={value} {why}: use {ours}")
    if strategy == "orthogonal_train_test" and value is not None and points > dim:
        why = f"does not change a query after more than dim={dim} points"
        raise ValueError(f"{strategy} {why}: use OrthogonalQuery({value})")
    shift = make() if value is None else make(value)
    if shift is not None:
        shift.check(points, dim)
    return shift


def _number(value: Any) -> Any:
    """A whole number as a float. The shifts refuse what is no number."""
    return float(value) if type(value) is int else value


_SHIFTS: dict[str, tuple[str, Callable[..., InputShift | None]]] = {
    "standard": ("", lambda: None),
    "scaled_query": ("scale", lambda scale=2.0: ScaledQuery(_number(scale))),
    "opposite_quadrants": ("num_flipped_dims", OppositeQuery),
    "random_quadrants": ("num_constrained_points", OrthantContext),
    "orthogonal_train_test": ("num_orthogonal_vectors", OrthogonalQuery),
    "overlapping_train_test": ("", OverlappingQuery),
    "subspace": ("num_dim", lambda removed=1: SubspaceInputs(removed)),
    "skewed": ("exponent", lambda exponent=1.0: SkewedInputs(_number(exponent))),
}
"""By strategy: the name of its argument, and what makes the shift."""
