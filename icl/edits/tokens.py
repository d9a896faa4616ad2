"""The role of each token of a sequence, as the model names it."""

from typing import Any

import numpy as np
from jaxtyping import PyTree

import opto

from ..batches import first_of
from ..roles import PAIR, ROLE, ROLES


# Lets texts of edits say `queries='label'`.
opto.attention.name_tokens(ROLE, **ROLES)

_NAMES = {role: name for name, role in ROLES.items()}


def token_roles(model: Any, task: Any, batch: PyTree) -> list[tuple[str, int]]:
    """The role and the pair of each token of the first sequence of a batch.

    Empty if the model does not name roles.
    """
    first = first_of(batch)
    table = opto.sites(task.forward, model, first)
    if not {ROLE, PAIR} <= {*table}:
        return []
    _, record = opto.run(task.forward, model, first, record=[ROLE, PAIR])
    roles = [_NAMES[int(role)] for role in record[ROLE]]
    return list(zip(roles, map(int, record[PAIR]), strict=True))


def token_names(model: Any, task: Any, batch: PyTree) -> list[str]:
    """Names of tokens: `exemplar 0`, `label 0`, …, `query`; empty without roles."""
    roles = token_roles(model, task, batch)
    return [role if role == "query" else f"{role} {pair}" for role, pair in roles]


def answer_tokens(model: Any, task: Any, batch: PyTree) -> list[list[str]]:
    """Names of each example's tokens by their part in the answer, `[example][token]`.

    They are `right exemplar`, `right label`, `other exemplar`, `other label` and
    `query`. Right is a pair whose label is the query's. Empty without roles or labels.
    """
    roles = token_roles(model, task, batch)
    if not roles or not hasattr(batch, "labels"):
        return []
    labels = np.asarray(batch.labels)
    right = labels == labels[:, -1:]
    return [
        [
            role if role == "query" else f"{'right' if row[pair] else 'other'} {role}"
            for role, pair in roles
        ]
        for row in right
    ]
