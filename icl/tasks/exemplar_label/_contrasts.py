"""Exemplar-label sequences with other answers, and how strongly an answer is given."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._sequence import Sequence


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


def exemplars_swapped(batch: Sequence) -> Sequence:
    """The sequences with the context's exemplars in reverse, and labels as they are.

    The query is then of the class whose label was another's: with two pairs, the answer
    is the other label. The query's own label, which is not read, stays.
    """
    places = jnp.array([*range(batch.labels.shape[1] - 2, -1, -1)])
    places = jnp.append(places, batch.labels.shape[1] - 1)
    return Sequence(batch.examples[:, places], batch.labels, batch.classes[:, places])


def logit_difference(
    logits: Float[Array, " label"], labels: Int[Array, " exemplar"]
) -> Float[Array, ""]:
    """How far the right label's logit is above the best other of the context, in nats.

    NaN if there is no other label.

    **Arguments:**

    - `logits`: Those of the query.
    - `labels`: Of the context, and last the query's, the right one.
    """
    context, own = labels[:-1], labels[-1]
    others = jnp.max(logits[context], where=context != own, initial=-jnp.inf)
    return jnp.where(jnp.isfinite(others), logits[own] - others, jnp.nan)


def _require(right: Bool[Array, " example"], message: str) -> None:
    if wrong := int(jnp.sum(~right)):
        raise ValueError(f"{message}, in {wrong} of {len(right)} sequences")
