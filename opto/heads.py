"""Detectors of kinds of heads from attention patterns, one number for each head.

Each detector takes one example; `vmap` outside. A row is a distribution over the keys,
which are all tokens or the first ones. The ranges given here do not hold for weights
that are not normalised.
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
        # The token before them is not a key.
        before = jnp.pad(before, [(0, 0)] * (before.ndim - 1) + [(0, missing)])
    return jnp.mean(before, -1, where=None if rows is None else rows[1:])


def previous_token_excess(
    pattern: Float[Array, "head seq kv_seq"], rows: Bool[Array, " seq"] | None = None
) -> Float[Array, " head"]:
    """`previous_token` minus its value for a head that attends to all keys equally.

    Under a causal mask, the token at position t of such a head attends to the one
    before it with `1 / (t + 1)`. Without a causal mask (some token attends to a later
    one), that is 1 over the number of keys. The excess of such a head is zero. The
    excess of a head that attends only to the previous token depends on the length of
    the sequence.
    """
    places = jnp.arange(1, pattern.shape[-2] + 1)
    causal = jnp.all(jnp.triu(pattern, 1) == 0)
    keys = pattern.shape[-1]
    seen = jnp.where(causal, jnp.minimum(places, keys), keys).astype(pattern.dtype)
    alike = jnp.broadcast_to(1 / seen[:, None], pattern.shape[-2:])
    return previous_token(pattern, rows) - previous_token(alike[None], rows)


def entropy(
    pattern: Float[Array, "head seq kv_seq"], rows: Bool[Array, " seq"] | None = None
) -> Float[Array, " head"]:
    """The entropy of a token's attention in nats, the mean over tokens.

    The mean is over all tokens, or over those that `rows` selects, such as no padding.
    Zero for attention to one token, `log(n)` for equal attention to n tokens; always
    zero for the first token under a causal mask. `entropy(pattern[:, -1:])` is that of
    the last token.
    """
    return jnp.mean(jnp.sum(jax.scipy.special.entr(pattern), -1), -1, where=rows)


def check_pattern(pattern: Array, **per_token: Array | None) -> None:
    """Raises `ValueError` unless `pattern` is that of one sequence.

    **Arguments:** `per_token`: Arrays with one entry for each token, or `None`.
    """
    if pattern.ndim != 3 or pattern.shape[1] < pattern.shape[2]:
        wanted = "[head, seq, kv_seq] of one sequence, kv_seq not longer than seq"
        raise ValueError(f"pattern is {wanted}, got an array of shape {pattern.shape}")
    for name, value in per_token.items():
        if value is not None and value.shape != pattern.shape[1:2]:
            wanted = f"one entry for each of {pattern.shape[1]} tokens"
            raise ValueError(f"{name} has {wanted}, got shape {value.shape}")
