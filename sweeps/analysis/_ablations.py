"""Ablations of a layer's heads, one by one or in sets."""

from collections.abc import Sequence
from typing import Any

import opto
from icl.experiments import Trained


def without(layer: int, sets: Sequence[Sequence[int]], site: str = "attn.z") -> Any:
    """An edit to sweep over that ablates sets of heads of a layer, one set per point.

    **Arguments:**

    - `sets`: The heads of each point; an empty set ablates none.
    - `site`: The site of a head that is set to zero.
    """
    most = max(map(len, sets), default=0)
    if not most:
        raise ValueError("sets: want at least one set with a head, got none")
    edits = []
    for heads in sets:
        # All have the same length, so that one program runs all points.
        some = [*heads] or [0]
        padded = [*some, *[some[0]] * (most - len(some))]
        strength = 1.0 if heads else 0.0
        name = f"blocks.{layer}.{site}"
        edits.append(opto.Zero(name, head=padded, strength=strength))
    return opto.stack(edits)


def only(layer: int, count: int) -> Any:
    """An edit to sweep over that keeps one head of a layer: `count` points."""
    return without(layer, rest(count))


def rest(count: int) -> list[list[int]]:
    """For each of `count` heads, all the other heads."""
    every = range(count)
    return [[head for head in every if head != kept] for kept in every]


def num_heads(trained: Trained, layer: int = -1) -> int:
    """How many heads a layer has."""
    return trained.model.blocks[layer].attn.num_heads


def layer_index(trained: Trained, layer: int) -> int:
    """The index of a layer; negative numbers count from the last layer."""
    count = len(trained.model.blocks)
    if not -count <= layer < count:
        raise ValueError(f"layer must be in [{-count}, {count}), got {layer}")
    return layer % count


def check_two_layers(trained: Trained) -> None:
    """Raises `ValueError` unless a run has two attention-only layers and no edits."""
    count = len(trained.model.blocks)
    if count != 2:
        raise ValueError(f"trained: want a model of two layers, got {count}")
    if any(block.mlp is not None for block in trained.model.blocks):
        raise ValueError("trained: want an attention-only model, got one with MLPs")
    if trained.edits:
        got = ", ".join(map(repr, trained.edits))
        raise ValueError(f"trained: want a run without edits, got {got}")
