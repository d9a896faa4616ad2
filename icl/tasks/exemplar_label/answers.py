"""How right a model's answers are, as metrics for `opto.sweep`; names of tokens."""

import string
from collections.abc import Sequence as List

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from . import _sequence


def answer_accuracy(
    logits: Float[Array, "example seq label"],
    examples: Array,
    labels: Int[Array, "example position"],
) -> Float[Array, ""]:
    """The share of queries whose right label has the largest logit.

    **Arguments:**

    - `logits`: The model's outputs; the last position is the query.
    - `examples`, `labels`: Its inputs; the last label is the right one.
    """
    return jnp.mean(jnp.argmax(logits[:, -1], -1) == labels[:, -1])


def logit_difference(
    logits: Float[Array, "example seq label"],
    examples: Array,
    labels: Int[Array, "example position"],
) -> Float[Array, ""]:
    """The right label's logit minus the best other logit of the context, in nats.

    This is a mean over queries; NaN if one has no other label. Unlike the accuracy it
    has a gradient, and the contributions of the model's parts to it can be added up.

    **Arguments:** As in `answer_accuracy`.
    """
    return jnp.mean(jax.vmap(_sequence.query_logit_difference)(logits[:, -1], labels))


def other_answer(labels: Int[Array, "example position"]) -> Int[Array, " example"]:
    """The label of the context that is not the right one, of sequences of two pairs."""
    first, second, right = labels[:, 0], labels[:, 1], labels[:, -1]
    return jnp.where(first == right, second, first)


def answer_loss(
    logits: Float[Array, "example seq label"], wanted: Int[Array, " example"]
) -> Float[Array, ""]:
    """The mean cross-entropy of the query's logits with any wanted label, in nats."""
    log = jax.nn.log_softmax(logits[:, -1])
    return -jnp.mean(jnp.take_along_axis(log, wanted[:, None], 1))


def is_answered(
    logits: Float[Array, "example seq label"], wanted: Int[Array, " example"]
) -> Bool[Array, " example"]:
    """Whether the query's largest logit is that of the wanted label."""
    return jnp.argmax(logits[:, -1], -1) == wanted


def sequence_letters(labels: Int[Array, "example position"]) -> list[list[str]]:
    """The `token_letters` of each sequence: exemplar-label pairs, then a query."""
    rows = jnp.asarray(labels).tolist()
    pairs = len(rows[0]) - 1 if rows else 0
    roles = [(role, k) for k in range(pairs) for role in ("exemplar", "label")]
    return [token_letters([*roles, ("query", pairs)], row) for row in rows]


def token_letters(roles: List[tuple[str, int]], labels: List[int]) -> list[str]:
    """Short names: a letter by label for an exemplar, ℓ3 for a label, A? for a query.

    **Arguments:**

    - `roles`: For each token `"exemplar"`, `"label"` or `"query"`, and its pair.
    - `labels`: The label of each pair; the last is the query's.
    """
    order = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    names = []
    for role, pair in roles:
        label = labels[pair]
        k = order[label]
        letter = string.ascii_uppercase[k] if len(order) <= 26 else f"x{k}"
        shown = {"label": f"ℓ{label}", "query": f"{letter}?"}
        names.append(shown.get(role, letter))
    return names
