"""What the coopetition paper reads off runs.

Layer 0 is the paper's layer 1, and layer 1 its layer 2.
"""

import os
from collections.abc import Sequence
from typing import Any

import opto
from icl import Experiment, Run
from icl.edits import Induction
from icl.edits.grafts import sources
from icl.experiments import Trained
from icl.runs import is_run

from ...analysis import check_two_layers


def taken_at(run: str | os.PathLike) -> int | None:
    """How many sequences the other run had seen from which this one has its weights.

    That is what it was started from, or what is grafted into it; `None` if there is no
    such run, or this one is not there.
    """
    if not is_run(run):
        return None
    experiment = Run(run).read(Experiment)
    if experiment.start is not None:
        return experiment.start.checkpoint
    grafted = sources(experiment.edits)
    return grafted[0][1] if grafted else None


def attention_differences(layer: int, differences: Sequence[float]) -> Any:
    """The query attends to labels alone, clamped, to be swept over.

    **Arguments:**

    - `layer`: Whose heads.
    - `differences`: In [-1, 1], how much more attention the correct label has than the
        incorrect ones: a point for each.
    """
    site = f"blocks.{layer}.attn.pattern"
    weights = [(1 + difference) / 2 for difference in differences]
    return opto.stack([opto.Pattern(Induction(w), site=site) for w in weights])


def without_way_past(layer: int) -> tuple[opto.AbstractEdit, ...]:
    """What comes into a layer reaches its heads alone, not what comes after them.

    Their attention and values are as they were. Edits of these go after.
    """
    return (
        opto.Zero(f"blocks.{layer}.resid_pre"),
        opto.Freeze(f"blocks.{layer}.attn.pattern"),
        opto.Freeze(f"blocks.{layer}.attn.v"),
    )


def lower_layer_ablations(
    trained: Trained,
) -> dict[str, tuple[opto.AbstractEdit, ...]]:
    """Ablations of a model of two layers, by what they take away.

    "layer 0 to the output" only removes what layer 0 writes past layer 1. The others
    also take it from layer 1's queries, keys or values.

    **Raises:** `ValueError` for another number of layers, or a run trained under edits,
    as what is held is the run without any.
    """
    check_two_layers(trained)
    lost = opto.Zero("blocks.0.attn.z")
    held = {part: opto.Freeze(f"blocks.1.attn.{part}") for part in "qkv"}
    return {
        "nothing": (),
        "layer 0 to the output": (lost, *held.values()),
        "layer 0 to queries": (lost, held["k"], held["v"]),
        "layer 0 to keys": (lost, held["q"], held["v"]),
        "layer 0 to values": (lost, held["q"], held["k"]),
        "all heads": (opto.Zero("blocks.*.attn.z"),),
    }
