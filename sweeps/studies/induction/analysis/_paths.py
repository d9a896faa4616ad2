"""How a head of layer 0 acts on layer 1: through the keys, or through the values.

With layer 1's patterns frozen, an ablation of layer 0 acts only through the values;
with the values frozen, only through the patterns, which queries and keys make. In both
cases it also acts through the direct path to the output.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

import opto
from icl import measures, replay
from icl.experiments import Trained

from ....analysis import check_two_layers, num_heads, only, without


VALUES, KEYS, BOTH = "values", "keys and queries", "both"
# The sites of layer 1 that are frozen to leave only one path open.
_HELD = {VALUES: ("blocks.1.attn.pattern",), KEYS: ("blocks.1.attn.v",), BOTH: ()}


def _held(*paths: str) -> tuple[opto.Freeze, ...]:
    """The freezes; edits hold arrays, so a global would use a device on import."""
    return tuple(opto.Freeze(site) for path in paths for site in _HELD[path])


@dataclass(frozen=True)
class PathTable:
    """A metric with heads of layer 0 ablated, where layer 1 sees it through one path.

    **Fields:**

    - `rows`: What is ablated.
    - `metric`: `[row]` by path (`"values"`, `"keys and queries"`, `"both"`).
    """

    rows: tuple[str, ...]
    metric: Mapping[str, Float[np.ndarray, " row"]]


def path_ablations(
    trained: Trained,
    sets: Mapping[str, Sequence[int]],
    *,
    metric: str = "accuracy",
    data: Any = "train",
) -> PathTable:
    """Ablates sets of heads of layer 0 for each path into layer 1.

    **Arguments:**

    - `sets`: The heads to ablate, by the name of the row.
    - `metric`: A metric of the task.
    - `data`: As for `icl.replay`.

    **Raises:** `ValueError` for a run that was trained under edits (the held values are
    those of the model without edits), and for a model that is not two attention-only
    layers.
    """
    check_two_layers(trained)
    measure = measures.task_metric(trained.task, metric)
    found = replay(
        trained,
        {path: measures.Under(_held(path), measure) for path in _HELD},
        data=data,
        edits=(without(0, list(sets.values())),),
        checkpoints=[-1],
    )
    return PathTable(tuple(sets), {path: found[path][0] for path in _HELD})


@dataclass(frozen=True)
class PairTable:
    """A metric with only one head of layer 1, and only one of layer 0 that reaches it.

    **Fields:**

    - `metric`: `[head of layer 1, head of layer 0]` by path.
    - `composition`: The composition score of the two heads, in the same form.
    """

    metric: Mapping[str, Float[np.ndarray, "late early"]]
    composition: Mapping[str, Float[np.ndarray, "late early"]]


def path_pairs(
    trained: Trained, *, metric: str = "accuracy", data: Any = "train"
) -> PairTable:
    """Leaves one head of each layer and one path into layer 1, for every pair of heads.

    **Arguments:** `metric`, `data`: As for `path_ablations`.

    **Raises:** `ValueError` as `path_ablations`.
    """
    check_two_layers(trained)
    measure = measures.task_metric(trained.task, metric)
    found = replay(
        trained,
        {path: measures.Under(_held(path), measure) for path in (VALUES, KEYS)},
        data=data,
        edits=(only(1, num_heads(trained, 1)), only(0, num_heads(trained, 0))),
        checkpoints=[-1],
    )
    read: Any = {VALUES: "values", KEYS: "keys"}
    scores = replay(
        trained,
        {path: measures.composition(into) for path, into in read.items()},
        data=data,
        checkpoints=[-1],
    )
    return PairTable(
        {path: found[path][0] for path in read},
        {path: scores[path][0] for path in read},
    )


def direct_ways(trained: Trained) -> dict[str, Any]:
    """Measures of the loss: unedited, and without what each layer writes directly.

    The names are `"all"`, `"without layer 0"` and `"without layer 1"`. Without layer 0,
    layer 1 still reads its output, so only the direct path to the output is cut.

    **Raises:** `ValueError` as `path_ablations`.
    """
    check_two_layers(trained)
    loss = measures.task_metric(trained.task, "loss")
    held = (*_held(VALUES, KEYS), opto.Zero("blocks.0.attn.z"))
    return {
        "all": loss,
        "without layer 0": measures.Under(held, loss),
        "without layer 1": measures.Under((opto.Zero("blocks.1.attn.z"),), loss),
    }
