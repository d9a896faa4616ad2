"""Head detectors that use the roles of the tokens.

Like the detectors of `opto.heads`, each takes one example and gives one number for each
head. They take the values of the model's sites `tokens.role`, `tokens.pair`,
`tokens.label` and `tokens.exemplar`, so they work for any order of tokens and any
number of pairs:

- `role`: for each token, `EXEMPLAR`, `LABEL` or `QUERY` of `icl.roles`;
- `pair`: for each token, the index of its pair of exemplar and label;
- `label`, `exemplar`: the label and the exemplar of each pair, with those of the query.
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

    The query's attention to all labels in context that equal its own, minus its
    attention to all that differ (Singh et al. 2024, "What needs to go right for an
    induction head?", section 3.1). NaN without a query; with several queries, the mean
    over them.
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
    """How much the query attends to earlier exemplars that equal it, in [0, 1].

    An exemplar counts only if all its entries equal the query's; other exemplars of the
    same class do not count. Zero if no exemplar counts. NaN without a query; with
    several queries, the mean over them.
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
