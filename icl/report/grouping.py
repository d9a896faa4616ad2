"""Ways to group the sequences of a set."""

from collections.abc import Callable
from typing import Any

import numpy as np


class Inapplicable(ValueError):
    """Raised for a figure that cannot be drawn for this run or these sequences."""


def _positions(batch: Any) -> np.ndarray:
    labels = np.asarray(batch.labels)
    right = labels[:, :-1] == labels[:, -1:]
    first, there = right.argmax(1), right.any(1)
    return first if there.all() else np.where(there, first.astype(str), "none")


def _label_sets(batch: Any) -> np.ndarray:
    context = np.asarray(batch.labels)[:, :-1]
    return np.array([" ".join(map(str, sorted(set(row.tolist())))) for row in context])


def _similarities(batch: Any) -> np.ndarray:
    """The mean cosine between exemplars of the context with different labels."""
    examples = np.asarray(batch.examples, float)
    if examples.ndim != 3:
        raise Inapplicable("similarity needs vectors as exemplars, got ids")
    context, labels = examples[:, :-1], np.asarray(batch.labels)[:, :-1]
    size = np.linalg.norm(context, axis=-1, keepdims=True)
    unit = context / np.where(size > 0, size, 1)
    cosines = np.einsum("nid,njd->nij", unit, unit)
    other = labels[:, :, None] != labels[:, None, :]
    count = other.sum((1, 2))
    total = np.where(other, cosines, 0).sum((1, 2))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


GROUPS: dict[str, tuple[Callable[[Any], np.ndarray], str]] = {
    "position": (_positions, "position of the answer"),
    "label": (lambda batch: np.asarray(batch.labels)[:, -1], "label of the query"),
    "labels": (_label_sets, "labels in context"),
    "class": (lambda batch: np.asarray(batch.classes)[:, -1], "class of the query"),
    "similarity": (_similarities, "cosine similarity\nof the exemplars"),
}
"""Ways to group sequences: a function that gives the groups, and their name."""

READS = {"class": ("classes",), "similarity": ("labels", "examples")}
"""The fields of a sequence that a grouping reads; `labels` if it is not listed."""


def missing_field(name: str, batch: Any) -> str:
    """The first field that a grouping needs and a batch does not have, or empty."""
    fields = READS.get(name, ("labels",))
    return next((field for field in fields if not hasattr(batch, field)), "")
