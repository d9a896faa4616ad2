"""What kind of head it is: detectors on attention patterns, one number for each head.

Each is for one example; `vmap` outside. A row is a distribution over the keys, which
are all tokens or the first of them. Weights that are not normalised give other ranges
than those that are said here.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def previous_token(
    pattern: Float[Array, "head seq kv_seq"], rows: Bool[Array, " seq"] | None = None
) -> Float[Array, " head"]:
    """The attention of a token to the one before it, in [0, 1].

    The mean over all tokens but the first, or over those that `rows` selects; NaN if
    there are none.
    """
    check_pattern(pattern, rows=rows)
    before = jnp.diagonal(pattern, offset=-1, axis1=-2, axis2=-1)
    if missing := pattern.shape[-2] - 1 - before.shape[-1]:
        # The token before them is no key.
        before = jnp.pad(before, [(0, 0)] * (before.ndim - 1) + [(0, missing)])
    return jnp.mean(before, -1, where=None if rows is None else rows[1:])


def previous_token_excess(
    pattern: Float[Array, "head seq kv_seq"], rows: Bool[Array, " seq"] | None = None
) -> Float[Array, " head"]:
    """`previous_token`, less what a head has that attends to all it sees alike.

    Under a causal mask the token at position t has `1 / (t + 1)` of such attention to
    the one before it, without one (there is attention to later tokens) all have 1 over
    the number of keys. Zero for that head; what is reached by attending to the
    previous token alone depends on the length of the sequence.
    """
    places = jnp.arange(1, pattern.shape[-2] + 1)
    causal = jnp.all(jnp.triu(pattern, 1) == 0)
    keys = pattern.shape[-1]
    seen = jnp.where(causal, jnp.minimum(places, keys), keys).astype(pattern.dtype)
    alike = jnp.broadcast_to(1 / seen[:, None], pattern.shape[-2:])
    return previous_token(pattern, rows) - previous_token(alike[None], rows)


def entropy(pattern: Float[Array, "head seq kv_seq"]) -> Float[Array, " head"]:
    """The entropy of a token's attention in nats, the mean over tokens.

    Zero for attention to one token, `log(n)` for attention to n alike; always zero for
    the first token under a causal mask. The last token's: `entropy(pattern[:, -1:])`.
    """
    return jnp.mean(jnp.sum(jax.scipy.special.entr(pattern), -1), -1)


def check_pattern(pattern: Array, **per_token: Array | None) -> None:
    """Raises `ValueError` unless it is a pattern of one sequence.

    **Arguments:** `per_token`: Arrays with one entry for each token, or `None`.
    """
    if pattern.ndim != 3 or pattern.shape[1] < pattern.shape[2]:
        wanted = "[head, seq, kv_seq] of one sequence, kv_seq not longer than seq"
        raise ValueError(f"pattern is {wanted}, got an array of shape {pattern.shape}")
    for name, value in per_token.items():
        if value is not None and value.shape != pattern.shape[1:2]:
            wanted = f"one entry for each of {pattern.shape[1]} tokens"
            raise ValueError(f"{name} has {wanted}, got shape {value.shape}")
