"""Heads of a layer taken away, one by one or in sets."""

from collections.abc import Sequence
from typing import Any

import opto
from icl.experiments import Trained


def without(layer: int, sets: Sequence[Sequence[int]], site: str = "attn.z") -> Any:
    """Ablations of sets of heads of a layer, to be swept over: a point for each set.

    **Arguments:**

    - `sets`: Heads; an empty set ablates none.
    - `site`: What of a head is set to zero.
    """
    most = max(map(len, sets), default=0)
    if not most:
        raise ValueError("sets: want a head in one of them at least, got none")
    edits = []
    for heads in sets:
        # Of equal length, so that all are points of one program.
        some = [*heads] or [0]
        padded = [*some, *[some[0]] * (most - len(some))]
        strength = 1.0 if heads else 0.0
        name = f"blocks.{layer}.{site}"
        edits.append(opto.Zero(name, head=padded, strength=strength))
    return opto.stack(edits)


def only(layer: int, count: int) -> Any:
    """Each head of a layer alone, to be swept over: a point for each of `count`."""
    return without(layer, rest(count))


def rest(count: int) -> list[list[int]]:
    """For each of `count` heads all the others."""
    every = range(count)
    return [[head for head in every if head != kept] for kept in every]


def num_heads(trained: Trained, layer: int = -1) -> int:
    """How many heads a layer has."""
    return trained.model.blocks[layer].attn.num_heads


def layer_index(trained: Trained, layer: int) -> int:
    """The number of a layer, where negative ones count from the last."""
    count = len(trained.model.blocks)
    if not -count <= layer < count:
        raise ValueError(f"layer must be in [{-count}, {count}), got {layer}")
    return layer % count


def check_two_layers(trained: Trained) -> None:
    """Raises `ValueError` but for two layers of attention alone, without edits."""
    count = len(trained.model.blocks)
    if count != 2:
        raise ValueError(f"trained: paths are from one layer to the other, got {count}")
    if any(block.mlp is not None for block in trained.model.blocks):
        raise ValueError("trained: want a model of attention alone, got one with MLPs")
    if trained.edits:
        got = ", ".join(map(repr, trained.edits))
        raise ValueError(f"trained: want a run without edits, got {got}")
