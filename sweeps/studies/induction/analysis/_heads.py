"""What each head of a layer does alone, and what the model does without it.

Measured on a run at one of its checkpoints with `icl.replay`, which stores its results
in the run's folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

import opto
from icl import measures, replay
from icl.edits import Induction
from icl.experiments import Trained

from ....analysis import layer_index, num_heads, only, rest, without


METRICS = ("accuracy", "loss")


@dataclass(frozen=True)
class HeadTable:
    """How well a model does with each head of a layer alone, and without each.

    **Fields:**

    - `layer`: The layer of the heads.
    - `strength`: The mean induction strength of each head, `[head]`.
    - `whole`: Each metric with all heads.
    - `without`: Each metric without each head, `[head]`.
    - `alone`: Each metric with only this head of the layer, `[head]`.
    - `added`: Each metric with only the strongest 1, 2, … heads, `[count]`.
    - `right`: Which sequences each head gets right alone, `[head, sequence]`.
    """

    layer: int
    strength: Float[np.ndarray, " head"]
    whole: Mapping[str, float]
    without: Mapping[str, Float[np.ndarray, " head"]]
    alone: Mapping[str, Float[np.ndarray, " head"]]
    added: Mapping[str, Float[np.ndarray, " count"]]
    right: Bool[np.ndarray, "head sequence"]

    @property
    def order(self) -> Int[np.ndarray, " head"]:
        """The heads, the strongest first."""
        return np.argsort(-self.strength, kind="stable")

    @property
    def best(self) -> int:
        """The strongest head."""
        return int(self.order[0])

    @property
    def mended(self) -> Float[np.ndarray, " head"]:
        """The share of the strongest head's errors that each head alone gets right.

        NaN if the strongest head gets nothing wrong.
        """
        return mended(self.right, self.best)


def mended(
    right: Bool[np.ndarray, "head sequence"], best: int
) -> Float[np.ndarray, " head"]:
    """The share of the head `best`'s errors that each head gets right.

    NaN if that head gets nothing wrong.
    """
    wrong = ~right[best]
    return right[:, wrong].mean(1) if wrong.any() else np.full(len(right), np.nan)


def head_table(
    trained: Trained, *, layer: int = -1, data: Any = "train", checkpoint: int = -1
) -> HeadTable:
    """Measures the heads of a layer at a checkpoint, under the edits of training.

    **Arguments:**

    - `trained`: A run from `icl.load`.
    - `layer`: The layer of the heads; negative numbers count from the last.
    - `data`: As for `icl.replay`, such as `icl.dense_set(trained.task)`.
    - `checkpoint`: The sequences seen at the checkpoint; -1 is the last.
    """
    layer = layer_index(trained, layer)
    every = range(num_heads(trained, layer))
    at: Any = {"data": data, "checkpoints": [checkpoint]}
    asked = {"strength": measures.induction_strength(layer)}
    strength = replay(trained, asked, **at)["strength"][0]
    order = np.argsort(-strength, kind="stable").tolist()
    sets: list[list[int]] = [
        [],
        *[[h] for h in every],
        *rest(len(every)),
        *[order[count:] for count in range(1, len(every))],
    ]
    found = replay(
        trained,
        {
            name: measures.task_metric(trained.task, name, over=measures.EachSequence())
            for name in METRICS
        },
        edits=(*trained.edits, without(layer, sets)),
        **at,
    )
    means = {name: found[name][0].mean(-1, dtype=np.float64) for name in METRICS}
    ends = np.cumsum([1, len(every), len(every)])
    parts = {name: np.split(means[name], ends) for name in METRICS}
    whole = {name: float(parts[name][0][0]) for name in METRICS}
    return HeadTable(
        layer,
        strength.astype(float),
        whole,
        without={name: parts[name][1] for name in METRICS},
        alone={name: parts[name][2] for name in METRICS},
        added={name: np.append(parts[name][3], whole[name]) for name in METRICS},
        right=found["accuracy"][0, ends[1] : ends[2]] > 0.5,
    )


@dataclass(frozen=True)
class MatchTable:
    """How well each head of a layer does alone if it attends to the right label only.

    **Fields:**

    - `accuracy`: `[head]`.
    - `by_label`: The accuracy for each right label, `[head, label]`.
    - `right`: Which sequences each head gets right, `[head, sequence]`.
    """

    accuracy: Float[np.ndarray, " head"]
    by_label: Float[np.ndarray, "head label"]
    right: Bool[np.ndarray, "head sequence"]


def perfect_match(
    trained: Trained, *, layer: int = -1, data: Any = "train"
) -> MatchTable:
    """Clamps the match of each head: only copying can go wrong.

    The other heads of its layer are ablated. At the last checkpoint, under the edits of
    training.

    **Arguments:** `layer`, `data`: As for `head_table`.
    """
    layer = layer_index(trained, layer)
    # All heads are clamped, and all except one are ablated.
    match = opto.attention.Pattern(Induction(), site=f"blocks.{layer}.attn.pattern")
    each = measures.task_metric(trained.task, "accuracy", over=measures.EachSequence())
    label = measures.Measure(_label, over=measures.EachSequence())
    found = replay(
        trained,
        {"accuracy": each, "label": label},
        data=data,
        edits=(*trained.edits, match, only(layer, num_heads(trained, layer))),
        checkpoints=[-1],
    )
    right, labels = found["accuracy"][0] > 0.5, found["label"][0, 0]
    there = [labels == k for k in range(trained.task.num_labels)]
    by_label = [
        right[:, rows].mean(1) if rows.any() else np.full(len(right), np.nan)
        for rows in there
    ]
    return MatchTable(right.mean(1), np.stack(by_label, 1), right)


def _label(record: opto.toolkit.Record, outputs: Any, example: Any) -> Any:
    """The label to predict."""
    return example.labels[-1]


def previous_token_heads(
    trained: Trained, *, layer: int = 0, data: Any = "train", least: float = 0.5
) -> list[int]:
    """The previous-token heads of a layer, the strongest first; at least one.

    **Arguments:**

    - `layer`: The layer of the heads.
    - `data`: As for `icl.replay`.
    - `least`: A head counts if its attention from labels to their exemplars is at least
        this; if no head's is, the strongest head counts.
    """
    asked = {"previous": measures.previous_token_strength(layer)}
    found = replay(trained, asked, data=data, checkpoints=[-1])["previous"][0]
    order = np.argsort(-found, kind="stable").tolist()
    return [head for head in order if found[head] >= least] or order[:1]
