"""What runs of earlier versions may have that is refused now."""

import warnings
from collections.abc import Sequence
from typing import Any

import opto
from opto.toolkit import with_effect

from ..runs import Run


def accepted(
    edits: Sequence[opto.AbstractEdit], run: Run | None, model: Any, inputs: Any
) -> tuple[opto.AbstractEdit, ...]:
    """The edits of a run, without those that change nothing if they were accepted then.

    With a warning. What they gave was not changed by them.

    **Arguments:** `run`: `None` for one that is not there yet.
    """
    edits = tuple(edits)
    if not edits or run is None or run.is_sealed:
        return edits
    left = with_effect(edits, (), opto.sites(model, *inputs))
    # Not by value: of two that are equal, one may be left out.
    if void := [edit for edit in edits if not any(edit is kept for kept in left)]:
        names = ", ".join(map(repr, void))
        warnings.warn(
            f"{run.path} was trained under edits that change nothing, which are left "
            f"out: {names}",
            stacklevel=2,
        )
    return left
