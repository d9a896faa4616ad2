"""Measurements of the coopetition paper on runs.

Layer 0 is the paper's layer 1, and layer 1 its layer 2.
"""

from collections.abc import Sequence
from typing import Any

import opto
from icl.edits import Induction
from icl.experiments import Trained

from ...analysis import check_two_layers


def attention_differences(layer: int, differences: Sequence[float]) -> Any:
    """An edit to sweep over that clamps the query's attention to the labels only.

    **Arguments:**

    - `layer`: The layer whose heads are clamped.
    - `differences`: In [-1, 1], the attention to the correct label minus that to the
        incorrect ones: a point for each.
    """
    site = f"blocks.{layer}.attn.pattern"
    weights = [(1 + difference) / 2 for difference in differences]
    return opto.stack(
        [opto.attention.Pattern(Induction(w), site=site) for w in weights]
    )


def without_way_past(layer: int) -> tuple[opto.toolkit.AbstractEdit, ...]:
    """Edits that cut the residual way past a layer: only its heads get its input.

    The heads keep the attention and values of the unedited run. Edits of the attention
    or the values must come after these edits.
    """
    return (
        opto.Zero(f"blocks.{layer}.resid_pre"),
        opto.Freeze(f"blocks.{layer}.attn.pattern"),
        opto.Freeze(f"blocks.{layer}.attn.v"),
    )


def lower_layer_ablations(
    trained: Trained,
) -> dict[str, tuple[opto.toolkit.AbstractEdit, ...]]:
    """Ablations of a two-layer model, by what they remove.

    "layer 0 to the output" removes only what layer 0 writes past layer 1. "layer 0 to
    queries", "keys" and "values" also remove it from that part of layer 1.

    **Raises:** `ValueError` for another number of layers, for MLPs, or for a run that
    was trained under edits: the held values are those of the model without edits.
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
