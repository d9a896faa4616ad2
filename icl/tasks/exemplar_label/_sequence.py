"""Exemplar-label sequences; those with other answers; how strong an answer is."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...checks import finite


class Sequence(eqx.Module):
    """One sequence, or a batch of them with leading axes; the query comes last.

    **Attributes:**

    - `examples`: What the model sees at each position: vectors, or ids if the data has
        ids.
    - `labels`: The label at each position; the query's label is the target.
    - `classes`: The class at each position, as an index in the data; -1 if unknown.
    """

    examples: Float[Array, "*batch exemplar dim"] | Int[Array, "*batch exemplar"]
    labels: Int[Array, "*batch exemplar"]
    classes: Int[Array, "*batch exemplar"]

    def check_batch(self) -> None:
        """Raises `ValueError` if some examples are not finite."""
        finite("examples", self.examples)


def labels_swapped(batch: Sequence) -> Sequence:
    """The sequences with the query's label and another label of the context exchanged.

    The other label is the first one in the context that differs. The exemplars stay, so
    the right answer is now the other label, and it becomes the query's label.

    **Raises:** `ValueError` if a query's label is not in the context, or if it is the
    only label there.
    """
    context, own = batch.labels[:, :-1], batch.labels[:, -1:]
    differs = context != own
    _require(~differs.all(1), "the query's label must be in the context, but is not")
    _require(differs.any(1), "the context must have another label, but has none")
    first = jnp.argmax(differs, axis=1)
    other = jnp.take_along_axis(context, first[:, None], axis=1)
    swapped = jnp.where(batch.labels == own, other, batch.labels)
    swapped = jnp.where(batch.labels == other, own, swapped)
    return Sequence(batch.examples, swapped, batch.classes)


def exemplars_swapped(batch: Sequence) -> Sequence:
    """The sequences with the context's exemplars in reverse order, labels unchanged.

    With two pairs, the query's class then has the other label in the context, so that
    label is the answer. With more pairs, the class may keep its label. The query's own
    label, which no model reads, is unchanged.
    """
    places = jnp.array([*range(batch.labels.shape[1] - 2, -1, -1)])
    places = jnp.append(places, batch.labels.shape[1] - 1)
    return Sequence(batch.examples[:, places], batch.labels, batch.classes[:, places])


def query_logit_difference(
    logits: Float[Array, " label"], labels: Int[Array, " exemplar"]
) -> Float[Array, ""]:
    """The right label's logit minus the best other logit of the context, in nats.

    NaN if there is no other label.

    **Arguments:**

    - `logits`: The query's logits.
    - `labels`: The labels of the context; then the query's label, which is the right
        one.
    """
    context, own = labels[:-1], labels[-1]
    others = jnp.max(logits[context], where=context != own, initial=-jnp.inf)
    return jnp.where(jnp.isfinite(others), logits[own] - others, jnp.nan)


def _require(right: Bool[Array, " example"], message: str) -> None:
    if wrong := int(jnp.sum(~right)):
        raise ValueError(f"{message}, in {wrong} of {len(right)} sequences")
