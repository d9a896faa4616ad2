"""Measures: a function of one example's forward, and how to combine examples."""

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Array, Int, PyTree

import opto


@dataclasses.dataclass(frozen=True)
class SequenceMean:
    """The mean over the sequences: `[*axes]`."""


@dataclasses.dataclass(frozen=True)
class EachSequence:
    """Each sequence on its own: `[sequence, *axes]`."""


@dataclasses.dataclass(frozen=True)
class GroupMean:
    """The mean over the sequences of each group: `[group, *axes]`.

    A group without sequences is NaN.

    **Fields:**

    - `index`: The group of each sequence, from 0; -1 for a sequence in no group. An
        array or a list is kept as a tuple.
    - `count`: The number of groups; by default the largest index plus one.

    **Raises:** `ValueError` for an index outside [-1, `count`).
    """

    index: Sequence[int] | Int[np.ndarray, " sequence"]
    count: int = -1

    def __post_init__(self):
        index = tuple(map(operator.index, self.index))
        count = max(index) + 1 if self.count == -1 else self.count
        if min(index) < -1 or max(index) >= count:
            got = f"{min(index)}…{max(index)}"
            raise ValueError(f"index must be in [-1, {count}), got {got}")
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "count", count)


Reduction = SequenceMean | EachSequence | GroupMean


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number, or an array of numbers, computed from the forward of one example.

    **Fields:**

    - `fn`: `fn(record, outputs, example)` gives an array of any shape, where `outputs`
        is what `task.forward` gives. It runs compiled, mapped over the examples.
    - `record`: The sites it reads, as names or globs. The record that `fn` gets may
        also hold sites that other measures read.
    - `over`: How to combine the sequences.
    - `axes`: Names of the axes of what `fn` gives, such as `"layer head"`.
    - `label`: What it measures, for the axis of a figure.
    - `text`: The text that `parse` reads it from, without `over`; empty if `parse`
        cannot read it.
    - `shares`: Whether it needs patterns whose rows are distributions, which not every
        kind of attention has.
    - `rows`: The tokens whose values it reads from the last block. With `"query"` it
        reads only the query's, and may get an array with only that row, the last one.
    """

    fn: Callable[[opto.toolkit.Record, PyTree, Any], Array]
    record: tuple[str, ...] = ()
    over: Reduction = SequenceMean()
    axes: str = ""
    label: str = ""
    text: str = ""
    rows: Literal["all", "query"] = "all"
    shares: bool = False


@dataclasses.dataclass(frozen=True)
class Under:
    """A measure taken under further edits, applied after those of the replay.

    **Fields:**

    - `edits`: The further edits.
    - `measure`: What is measured under them.
    """

    edits: tuple[opto.toolkit.AbstractEdit, ...]
    measure: Measure

    def __post_init__(self):
        if not isinstance(self.measure, Measure):
            kind = type(self.measure).__name__
            raise ValueError(f"measure must be a Measure of a forward, got {kind}")


@dataclasses.dataclass(frozen=True)
class OfModel:
    """A measure of a whole model: of its weights, or of its loss over a batch.

    **Fields:**

    - `fn`: `fn(model, task, batch, edits)` gives an array of any shape; it runs
        compiled. The first axis of the batch is the sequence.
    - `axes`, `label`, `text`: As for `Measure`.
    - `needs`: Attributes that the model must have, such as `embedding.label`.
    - `reads`: `"weights"` if `fn` ignores the edits, so that a replay with edits
        does not accept the measure.
    """

    fn: Callable[[Any, Any, PyTree, tuple[opto.toolkit.AbstractEdit, ...]], Array]
    axes: str = ""
    label: str = ""
    text: str = ""
    reads: Literal["weights", "forwards"] = "forwards"
    needs: tuple[str, ...] = ()


AnyMeasure = Measure | Under | OfModel


def lacking(measure: AnyMeasure, table: opto.toolkit.Sites, model: Any) -> str:
    """The reason why a measure cannot be taken of a model; empty if it can be.

    **Arguments:** `table`: The model's sites.
    """
    plain = measure.measure if isinstance(measure, Under) else measure
    kind = type(model).__name__
    if isinstance(plain, OfModel):
        missing = [path for path in plain.needs if not _has(model, path)]
        return f"it needs {missing[0]!r}, which {kind} does not have" if missing else ""
    for pattern in plain.record:
        try:
            found = table.match(pattern)
        except ValueError as error:
            if not pattern.startswith("tokens."):
                return str(error)
            return f"it needs token roles ({pattern!r}), which {kind} does not have"
        for site in found if plain.shares else ():
            if site.rows and site.rows.are != "distribution":
                return _no_shares(plain.label, site.name, site.rows)
    return ""


def _has(model: Any, path: str) -> bool:
    """Whether there is such an attribute of an attribute of … the model."""
    for name in path.split("."):
        if not hasattr(model, name):
            return False
        model = getattr(model, name)
    return True


def check_shares(label: str, name: str, record: opto.toolkit.Record) -> None:
    """Raises `ValueError` if the rows of a pattern are not shares of attention."""
    rows = record.rows_of(name)
    if rows and rows.are != "distribution":
        raise ValueError(_no_shares(label, name, rows))


def _no_shares(label: str, name: str, rows: opto.toolkit.Rows) -> str:
    wanted = f"{label} needs attention whose rows are a 'distribution'"
    return f"{wanted}; {name!r} of {rows.of} has {rows.are!r} rows"


def sites_of(measures: Mapping[str, Measure] | Iterable[Measure]) -> list[str]:
    """The sites that the measures read, each once."""
    found = measures.values() if isinstance(measures, Mapping) else measures
    return list(dict.fromkeys(site for measure in found for site in measure.record))
