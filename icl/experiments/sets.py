"""Sequences by name: the evaluation sets of a run, and the dense set."""

import difflib
import re
from collections.abc import Iterable

import jax

from ..tasks.exemplar_label import ExemplarLabelTask
from ..tasks.exemplar_label.dense import dense_set, GroupedSequences
from ._experiment import Trained


DENSE = "dense"
"""The name of a set that every run has: all sequences of pairs of classes."""

DENSE_PAIRS = 100
"""So many pairs of classes unless `dense:N` says how many."""


def check_set(trained: Trained, name: str) -> str:
    """The name of an evaluation set or `dense`, checked; for `""` the first set.

    **Returns:** An empty name if none is given and the run has no sets.

    **Raises:** `ValueError` if there is none of that name.
    """
    known = [*trained.evaluations]
    if not name:
        return known[0] if known else ""
    if name.startswith(f"{DENSE}:") and _pairs(name) is None:
        raise ValueError(f"data {DENSE}:N is of N pairs of classes, from 1; got {name}")
    dense = _pairs(name) is not None
    if dense and not isinstance(trained.task, ExemplarLabelTask):
        kind = type(trained.experiment.task).__name__
        raise ValueError(f"data {name!r} is of exemplar-label sequences, not of {kind}")
    if name not in known and not dense:
        raise ValueError(unknown("data", name, [*known, DENSE, f"{DENSE}:N"]))
    return name


def named_dense_set(trained: Trained, name: str) -> GroupedSequences | None:
    """The sequences that `dense` and `dense:N` name; `None` for another name.

    Every label pair and order of `N` pairs of classes, drawn at random if there are
    more: the same at every call.
    """
    pairs = _pairs(name)
    if pairs is None:
        return None
    return dense_set(trained.task, max_class_pairs=pairs, key=jax.random.key(0))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that is none of some, which it may have been meant for."""
    known = [*known]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    there = f"there is {', '.join(known)}" if known else "there is none"
    hint = f"did you mean {close[0]!r}?" if close else there
    return f"no {what} {name!r}; {hint}"


def _pairs(name: str) -> int | None:
    found = re.fullmatch(rf"{DENSE}(?::([1-9]\d*))?", name)
    return None if found is None else int(found[1] or DENSE_PAIRS)
