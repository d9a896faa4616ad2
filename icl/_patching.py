"""Sequences with another answer, to patch from, and what of the answer comes back."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

import opto

from ._ablation import side_by_side
from .tasks import Sequence


def labels_swapped(batch: Sequence) -> Sequence:
    """The sequences with the query's label and another of the context exchanged.

    The other label is the first in the context that differs. Exemplars stay as they
    are, so that the right answer is the other label, which becomes the query's.

    **Raises:** `ValueError` for a query whose label is not in the context, or alone.
    """
    context, own = batch.labels[:, :-1], batch.labels[:, -1:]
    differs = context != own
    _require(~differs.all(1), "the query's label is not in the context to be swapped")
    _require(differs.any(1), "there is no other label in the context to swap it with")
    first = jnp.argmax(differs, axis=1)
    other = jnp.take_along_axis(context, first[:, None], axis=1)
    swapped = jnp.where(batch.labels == own, other, batch.labels)
    swapped = jnp.where(batch.labels == other, own, swapped)
    return Sequence(batch.examples, swapped, batch.classes)


def resampled(batch: Sequence) -> Sequence:
    """The sequences in another order: each in the place of the one before it.

    **Raises:** `ValueError` for a single sequence.
    """
    size = len(batch.labels)
    if size < 2:
        raise ValueError(f"another sequence needs two or more, got {size}")
    return jax.tree.map(lambda x: jnp.roll(x, 1, axis=0), batch)


SOURCES: dict[str, Callable[[Sequence], Sequence]] = {
    "labels-swapped": labels_swapped,
    "resample": resampled,
}


def logit_difference(
    logits: Float[Array, "example label"], labels: Int[Array, "example position"]
) -> Float[Array, ""]:
    """How far the right label's logit is above the best other of the context.

    The mean over sequences, in nats; NaN if one has no other label.

    **Arguments:**

    - `logits`: Those of the query.
    - `labels`: Of the context, and last the query's, the right one.
    """
    context, own = labels[:, :-1], labels[:, -1:]
    there = jnp.take_along_axis(logits, context, axis=1)
    others = jnp.max(there, axis=1, where=context != own, initial=-jnp.inf)
    right = jnp.take_along_axis(logits, own, axis=1)[:, 0]
    return jnp.mean(jnp.where(jnp.isfinite(others), right - others, jnp.nan))


@dataclasses.dataclass(frozen=True)
class Patched:
    """The logit difference of the right label, the mean over a batch.

    **Fields:**

    - `patched`: At each point of the grid; NaN where there is none.
    - `source`, `clean`: Of the two runs as they are.
    """

    patched: np.ndarray
    source: float
    clean: float

    @property
    def recovered(self) -> np.ndarray:
        """`patched` on a scale on which the source's run is 0 and the clean one 1."""
        return (self.patched - self.source) / (self.clean - self.source)


def patch_clean(
    model: Any,
    clean: tuple[Array, ...],
    source: tuple[Array, ...],
    *,
    at: Any,
    edits: tuple[opto.AbstractEdit, ...] = (),
) -> Patched:
    """The logit difference of the right label with clean values in the source's run.

    **Arguments:**

    - `clean`, `source`: The inputs of both runs, batches of one size, the labels last.
    - `at`: What is taken from the clean run, `opto.At(site).each(…)`.
    - `edits`: In force in both runs.

    **Raises:** `ValueError` as `opto.activation_patch`, and if both runs are alike or
    a sequence has no other label in its context.
    """
    labels = clean[-1]
    others = jnp.any(labels[:, :-1] != labels[:, -1:], axis=1)
    _require(others, "there is no other label in the context to compare with")
    metric = eqx.Partial(_of_query, labels)
    ends = []
    for inputs in (source, clean):
        outputs, _ = opto.run(model, *inputs, edits=edits)
        ends.append(float(metric(outputs)))
    if not abs(ends[1] - ends[0]) > 0:
        raise ValueError(
            "there is nothing to patch: the logit difference of the right label is "
            f"{ends[0]:.4g} in both runs"
        )
    chunk = side_by_side(labels)
    patched = opto.activation_patch(
        metric, model, source, clean, at=at, edits=edits, chunk=chunk
    )
    return Patched(np.asarray(patched), *ends)


def grid_of(
    table: opto.Sites, site: str, axes: tuple[str, ...], shape: tuple[int, ...]
) -> list[list[int]]:
    """The indices along each axis of the grid of `opto.At(site).each(*axes)`."""
    layers = sorted({s.layer for s in table.match(site) if s.layer is not None})
    return [
        layers if axis == "layer" else list(range(size))
        for axis, size in zip(axes, shape, strict=True)
    ]


def _of_query(labels: Array, outputs: Array, *inputs: Array) -> Float[Array, ""]:
    return logit_difference(outputs[:, -1], labels)


def _require(right: Bool[Array, " example"], message: str) -> None:
    if wrong := int(jnp.sum(~right)):
        raise ValueError(f"{message}, in {wrong} of {len(right)} sequences")
