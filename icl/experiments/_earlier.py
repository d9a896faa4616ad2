"""Edits that runs of earlier versions may have but that are refused now."""

import warnings
from collections.abc import Sequence
from typing import Any

import opto
from opto.toolkit import with_effect

from ..runs import Run


def accepted(
    edits: Sequence[opto.AbstractEdit], run: Run | None, model: Any, inputs: Any
) -> tuple[opto.AbstractEdit, ...]:
    """The edits of a run; for an older run, without those that change nothing.

    Older versions accepted such edits. They are left out with a warning, which does not
    change the results.

    **Arguments:** `run`: `None` for a run that does not exist yet.
    """
    edits = tuple(edits)
    if not edits or run is None or run.is_sealed:
        return edits
    left = with_effect(edits, (), opto.sites(model, *inputs))
    # Compare identity, not values: one of two equal edits may be left out.
    if void := [edit for edit in edits if not any(edit is kept for kept in left)]:
        names = ", ".join(map(repr, void))
        warnings.warn(
            f"{run.path} was trained under edits that change nothing; these are left "
            f"out: {names}",
            stacklevel=2,
        )
    return left
