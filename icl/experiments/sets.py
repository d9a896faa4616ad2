"""Sequences by name: the evaluation sets of a run, and the dense set."""

import re
from collections.abc import Iterable

import jax
from jaxtyping import PyTree

from opto.hints import did_you_mean

from ..tasks.exemplar_label import ExemplarLabelTask
from ..tasks.exemplar_label.dense import dense_set, GroupedSequences
from ._experiment import Trained


DENSE = "dense"
"""The name of the dense set: all sequences of pairs of classes. Every run of an
exemplar-label task has it."""

DENSE_PAIRS = 100
"""The number of pairs of classes, unless `dense:N` gives another."""


def check_not_dense(names: Iterable[str]) -> None:
    """Raises `ValueError` if a set has a name that means the dense set."""
    for name in names:
        if _pairs(name) is not None or name.startswith(f"{DENSE}:"):
            wanted = f"{DENSE} and {DENSE}:N always mean the dense set"
            raise ValueError(f"an evaluation set cannot be named {name!r}: {wanted}")


def check_set(trained: Trained, name: str) -> str:
    """The name of an evaluation set or `dense`, checked; `""` gives the first set.

    **Returns:** An empty name if none is given and the run has no sets.

    **Raises:** `ValueError` if no set has that name.
    """
    known = [*trained.evaluations]
    if not name:
        return known[0] if known else ""
    if name in known:
        return name
    has_pairs = isinstance(trained.task, ExemplarLabelTask)
    if name.startswith(f"{DENSE}:") and _pairs(name) is None:
        raise ValueError(f"data must be {DENSE}:N with N at least 1, got {name}")
    if _pairs(name) is None:
        there = [*known, *([DENSE, f"{DENSE}:N"] if has_pairs else [])]
        every = f"; known sets: {', '.join(there) or 'none'}"
        hint = did_you_mean(name, there, cutoff=0.4) or every
        raise ValueError(f"no evaluation set {name!r}{hint}")
    if not has_pairs:
        kind = type(trained.experiment.task).__name__
        raise ValueError(f"data {name!r} needs an exemplar-label task, got {kind}")
    return name


def find_set(trained: Trained, name: str = "") -> PyTree | GroupedSequences:
    """The sequences of an evaluation set (a batch), or those of `dense` or `dense:N`.

    The dense set has every label pair and order of `N` pairs of classes. If there are
    more pairs, `N` are drawn at random, the same at every call.

    **Arguments:** `name`: The name of the set; by default the first set of the run.

    **Raises:** `ValueError` if no set has that name, if there are no sets, or if there
    are fewer than `N` pairs.
    """
    name = check_set(trained, name)
    if not name:
        raise ValueError(f"{trained.run.path} has no evaluation sets")
    if name in trained.evaluations:
        return trained.evaluations[name]
    pairs = _pairs(name)
    found = dense_set(trained.task, max_class_pairs=pairs, key=jax.random.key(0))
    there = len(found.pairs["class_pair"])
    if name != DENSE and there < (pairs or 0):
        raise ValueError(f"data {name!r}: there are only {there} pairs of classes")
    return found


def find_sets(trained: Trained, names: Iterable[str] = ()) -> dict[str, PyTree]:
    """The batches of some sets, from `find_set`; by default of all evaluation sets.

    **Raises:** `ValueError` as in `find_set`.
    """
    found = {}
    for name in [*names] or [*trained.evaluations] or [""]:
        every = find_set(trained, name)
        grouped = isinstance(every, GroupedSequences)
        found[name] = every.sequences if grouped else every
    return found


def _pairs(name: str) -> int | None:
    found = re.fullmatch(rf"{DENSE}(?::([1-9]\d*))?", name)
    return None if found is None else int(found[1] or DENSE_PAIRS)
