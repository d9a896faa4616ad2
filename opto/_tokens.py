"""What the tokens of a sequence are: the sites that tell, and the roles there are.

A model of exemplar-label sequences names four sites, for edits and detectors that need
to know: `tokens.role` [seq] says of each token which of the roles it has, `tokens.pair`
[seq] of which exemplar; `tokens.label` and `tokens.exemplar` [exemplar, …] hold the
labels and the exemplars themselves, the query and its label last.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool


EXEMPLAR, LABEL, QUERY = 0, 1, 2

ROLE, PAIR = "tokens.role", "tokens.pair"
LABELS, EXEMPLARS = "tokens.label", "tokens.exemplar"

_ROLES = {"exemplar": EXEMPLAR, "label": LABEL, "query": QUERY}


def check_roles(argument: str, roles: str) -> str:
    """Raises `ValueError` unless `roles` is "all" or names of roles."""
    if roles != "all":
        unknown = [word for word in str(roles).split() if word not in _ROLES]
        if unknown or not str(roles).split():
            known = ", ".join(["all", *_ROLES])
            raise ValueError(f"{argument} names roles of tokens ({known}), got {roles}")
    return roles


def has_role(role: Array, roles: str) -> Bool[Array, " seq"]:
    """Which tokens have one of the roles, `"label"` or `"exemplar query"`."""
    wanted = jnp.array([_ROLES[word] for word in roles.split()])
    return jnp.any(role[:, None] == wanted, axis=1)
