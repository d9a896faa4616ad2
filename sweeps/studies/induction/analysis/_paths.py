"""Through what a head of the first layer acts on the second: keys, or values.

With layer 1's patterns frozen, an ablation of layer 0 acts only through the values;
with the values frozen, only through the patterns, which queries and keys make. Both
leave the direct way to the output.
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
# The sites of layer 1 that are held, by the path that is left open.
_HELD = {VALUES: ("blocks.1.attn.pattern",), KEYS: ("blocks.1.attn.v",), BOTH: ()}


def _held(*paths: str) -> tuple[opto.Freeze, ...]:
    """Edits are arrays, so they are made when asked for: importing uses no device."""
    return tuple(opto.Freeze(site) for path in paths for site in _HELD[path])


@dataclass(frozen=True)
class PathTable:
    """A metric with heads of layer 0 ablated, as layer 1 sees it through a path.

    **Fields:**

    - `rows`: What is ablated.
    - `metric`: By path (`"values"`, `"keys and queries"`, `"both"`), `[row]`.
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

    - `sets`: Heads, by the name of the row.
    - `metric`: Of the task.
    - `data`: As for `icl.replay`.

    **Raises:** `ValueError` for a run that was trained under edits, as what is held is
    the run without any.
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
    """A metric with one head of layer 1, that one head of layer 0 reaches.

    **Fields:**

    - `metric`: By path, `[head of layer 1, head of layer 0]`.
    - `composition`: Likewise, how much of what the one writes the other reads.
    """

    metric: Mapping[str, Float[np.ndarray, "late early"]]
    composition: Mapping[str, Float[np.ndarray, "late early"]]


def path_pairs(
    trained: Trained, *, metric: str = "accuracy", data: Any = "train"
) -> PairTable:
    """Leaves one head of each layer, for one path into layer 1: every pair of them.

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
    """Measures: the loss as it is, and without what each layer writes to the output.

    `"all"`; `"without layer 0"`, whose outputs layer 1 still reads as they are, so that
    only the way past it is cut; and `"without layer 1"`.

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
