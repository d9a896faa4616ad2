"""A model's metrics on a batch of examples."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree, Shaped

import opto

from ..batches import first_of
from ..training import check_edits, evaluate_batch


def evaluate(
    model: PyTree,
    task: Any,
    batch: PyTree,
    *,
    edits: Sequence[opto.toolkit.AbstractEdit] = (),
) -> dict[str, Shaped[Array, "example ..."]]:
    """The task's metrics for each example of a batch, in one compiled call.

    **Arguments:**

    - `model`, `task`: See `icl.protocols.Task`.
    - `batch`: Examples with a leading axis, such as an evaluation set.
    - `edits`: Active in each forward pass.

    **Raises:** `ValueError` for an edit that cannot apply.
    """
    check_edits(model, task, edits, first_of(batch))
    return _evaluate(model, task, batch, tuple(edits))


# Compiled once for all calls with arrays of the same shapes.
_evaluate = eqx.filter_jit(evaluate_batch)
