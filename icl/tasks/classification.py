"""Scores of one prediction of a label."""

import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int


def classification(
    logits: Float[Array, " label"],
    target: Int[Array, ""],
    context_labels: Int[Array, " context"],
) -> dict[str, Float[Array, ""]]:
    r"""Scores the prediction of a label, among all labels and among some.

    `loss` is $-\log p(\text{target})$ in nats, where $p$ is the softmax of the logits,
    and `probability` is $p(\text{target})$. `accuracy` is 1 if the target has the
    largest logit, else 0; among equal logits, the lowest label counts as the largest.

    With the prefix `in_context_`, the softmax and the largest logit are over the
    context's labels only; with `out_of_context_`, over the other labels only. If the
    target is not one of these, the loss is undefined (NaN), and accuracy and
    probability are 0. If one of these logits is NaN, all three are NaN. If the target
    is not one of these, a NaN logit anywhere makes them NaN.

    `context_probability` is the total probability that $p$ gives to the context's
    labels.

    **Arguments:**

    - `logits`: One for each label.
    - `target`: The right label.
    - `context_labels`: The labels in the context; one label may occur several times.

    **Returns:**

    float32 scalars by name. The gradient of `loss` is finite, whatever the others are.
    A target without a logit has infinite `loss`. A context label without a logit makes
    every score that depends on it NaN.
    """
    logits = logits.astype(jnp.float32)
    labels = jnp.arange(logits.shape[0], dtype=context_labels.dtype)
    within = logits.at[context_labels].get(mode="fill", fill_value=jnp.nan)
    own = logits.at[target].get(mode="fill", fill_value=jnp.nan)
    everywhere = jnp.ones(logits.shape, bool)
    first = ~_repeats(context_labels)
    outside = everywhere.at[context_labels].set(False)
    broken = jnp.any(jnp.isnan(logits))
    largest = jnp.max(logits)
    weights = jnp.exp(_less(logits, largest))
    in_context = jnp.where(first, jnp.exp(_less(within, largest)), 0.0)
    return {
        **_among("", logits, labels, everywhere, own, target, broken, jnp.inf),
        **_among("in_context_", within, context_labels, first, own, target, broken),
        **_among("out_of_context_", logits, labels, outside, own, target, broken),
        "context_probability": jnp.sum(in_context) / jnp.sum(weights),
    }


def _among(
    prefix: str,
    logits: Float[Array, " choice"],
    labels: Int[Array, " choice"],
    allowed: Bool[Array, " choice"],
    own: Float[Array, ""],
    target: Int[Array, ""],
    broken: Bool[Array, ""],
    absent: float = jnp.nan,
) -> dict[str, Float[Array, ""]]:
    """Loss, accuracy and probability when only some choices are allowed.

    `absent` is the loss if the target is not one of these choices; `broken` says
    whether any logit is NaN.
    """
    possible = jnp.any(allowed & (labels == target))
    # Relative to the target's logit: exact for large logits too, unlike adding a log.
    total = _log_total(_less(logits, own), allowed)
    absent_loss = jnp.where(broken, jnp.nan, absent)
    loss = jnp.where(possible, total - _less(own, own), absent_loss)
    wins = (own > logits) | ((own == logits) & (target <= labels))
    right = jnp.all(wins | ~allowed).astype(jnp.float32)
    # No answer is not a wrong answer: a mean over zeros would look like a finding.
    unknown = jnp.any(allowed & jnp.isnan(logits))
    never = jnp.where(broken, jnp.nan, 0.0)
    answer = jnp.where(unknown, jnp.nan, right)
    return {
        f"{prefix}loss": loss,
        f"{prefix}accuracy": jnp.where(possible, answer, never),
        f"{prefix}probability": jnp.where(possible, jnp.exp(-loss), never),
    }


def _less(
    logits: Float[Array, "*choice"], shift: Float[Array, ""]
) -> Float[Array, "*choice"]:
    """The logits minus a shift, if it is finite; no gradient through the shift."""
    return logits - lax.stop_gradient(jnp.where(jnp.isfinite(shift), shift, 0.0))


def _log_total(
    logits: Float[Array, " choice"], allowed: Bool[Array, " choice"]
) -> Float[Array, ""]:
    """The logsumexp of the allowed logits, or of all if none is: NaN-free gradients."""
    return logsumexp(logits, where=allowed | ~jnp.any(allowed))


def _repeats(labels: Int[Array, " n"]) -> Bool[Array, " n"]:
    """Whether a label already occurs further left."""
    return jnp.any(jnp.tril(labels[:, None] == labels[None, :], -1), axis=1)
