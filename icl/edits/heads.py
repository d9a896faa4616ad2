"""What kind of head it is: detectors that go by what the tokens are.

As those of `opto.heads`, each is for one example and gives one number for each head.
They take what a model says at its sites `tokens.role`, `tokens.pair`, `tokens.label`
and `tokens.exemplar`, so that any order of tokens and any number of pairs will do:

- `role`: `EXEMPLAR`, `LABEL` or `QUERY` of `icl.roles`, for each token;
- `pair`: which of the exemplars and labels a token is, or belongs to;
- `label`, `exemplar`: those of each pair, the query's too.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from opto.heads import check_pattern

from ..roles import EXEMPLAR, LABEL, QUERY


def induction_strength(
    pattern: Float[Array, "head seq kv_seq"],
    role: Int[Array, " seq"],
    pair: Int[Array, " seq"],
    label: Int[Array, " exemplar"],
) -> Float[Array, " head"]:
    """How much more the query attends to its own label than to the others, in [-1, 1].

    Its attention to all labels in context that equal its own, less that to all that
    differ (Singh et al. 2024, "What needs to go right for an induction head?",
    section 3.1). NaN without a query, the mean over several.
    """
    check_pattern(pattern, role=role, pair=pair)
    own, keys = label[pair], pattern.shape[-1]
    signed = jnp.where(own[:, None] == own[:keys], pattern, -pattern)
    return _from_query(jnp.where(role[:keys] == LABEL, signed, 0), role)


def duplicate_token(
    pattern: Float[Array, "head seq kv_seq"],
    role: Int[Array, " seq"],
    pair: Int[Array, " seq"],
    exemplar: Float[Array, "exemplar dim"] | Int[Array, " exemplar"],
) -> Float[Array, " head"]:
    """How much the query attends to its like: earlier exemplars equal to it, in [0, 1].

    Equal in every entry; exemplars of one class that differ do not count. Zero if there
    is none; NaN without a query, the mean over several.
    """
    check_pattern(pattern, role=role, pair=pair)
    own = exemplar.reshape(len(exemplar), -1)[pair]
    same = jnp.all(own[:, None] == own, -1) & (role == EXEMPLAR)
    position = jnp.arange(len(role))
    counted = same & (position < position[:, None])
    return _from_query(jnp.where(counted[:, : pattern.shape[-1]], pattern, 0), role)


def _from_query(
    attention: Float[Array, "head seq kv_seq"], role: Int[Array, " seq"]
) -> Float[Array, " head"]:
    return jnp.mean(jnp.sum(attention, -1), -1, where=role == QUERY)
