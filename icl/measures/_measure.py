"""What a measure is: a function of one example's forward, and how examples add up."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Array, ArrayLike, Int, PyTree

import opto


@dataclasses.dataclass(frozen=True)
class SequenceMean:
    """The mean over the sequences: `[*axes]`."""


@dataclasses.dataclass(frozen=True)
class EachSequence:
    """Every sequence by itself: `[sequence, *axes]`."""


@dataclasses.dataclass(frozen=True, eq=False)
class GroupMean:
    """The mean over the sequences of each group: `[group, *axes]`.

    A group without sequences is NaN. Two are equal if their arrays are.
    """

    index: Int[np.ndarray, " sequence"]
    """The group of each sequence, from 0; -1 for those that are in none."""
    count: int
    """How many groups there are."""

    def __init__(self, index: ArrayLike | Iterable[int], count: int | None = None):
        """**Arguments:**

        - `index`: The group of each sequence, from 0; -1 for those that are in none.
        - `count`: How many groups there are; by default one more than the largest.

        **Raises:** `ValueError` for an index that is none of that many.
        """
        found = np.asarray(index if np.ndim(index) else [*index])  # pyright: ignore
        if found.ndim != 1 or not found.size or not _whole(found):
            got = f"{found.dtype}{list(found.shape)}"
            raise ValueError(f"index has a whole number for each sequence, got {got}")
        largest = int(found.max())
        count = largest + 1 if count is None else count
        if found.min() < -1 or largest >= count:
            got = f"{found.min()}…{largest}"
            raise ValueError(f"index must be in [-1, {count}), got {got}")
        kept = found.astype(np.int32)
        kept.setflags(write=False)
        object.__setattr__(self, "index", kept)
        object.__setattr__(self, "count", count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupMean):
            return NotImplemented
        return self.count == other.count and np.array_equal(self.index, other.index)

    def __hash__(self) -> int:
        return hash((self.count, self.index.tobytes()))


Reduction = SequenceMean | EachSequence | GroupMean


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number, or several, read off the forward of one example.

    **Fields:**

    - `fn`: `fn(record, outputs, example)` to an array of any shape, where `outputs` is
        what `task.forward` gives. It runs compiled and is mapped over the examples.
    - `record`: The sites it reads, names or globs. The record that it gets may hold
        others too, which other measures read.
    - `over`: How the sequences are put together.
    - `axes`: Names of the axes of what `fn` gives, `"layer head"`.
    - `label`: What it is, for the axis of a figure.
    - `text`: What `parse` makes it from, but for `over`; nothing if that cannot.
    - `shares`: Whether it reads the rows of patterns as distributions, which not every
        kind of attention has.
    - `rows`: Of which tokens it reads what the last block computes: with `"query"`, of
        the query alone, it may get an array of that one row (the last, at any rate).
    """

    fn: Callable[[opto.Record, PyTree, Any], Array]
    record: tuple[str, ...] = ()
    over: Reduction = SequenceMean()
    axes: str = ""
    label: str = ""
    text: str = ""
    rows: Literal["all", "query"] = "all"
    shares: bool = False


@dataclasses.dataclass(frozen=True)
class Under:
    """A measure in a forward with further edits, after those of the replay.

    **Fields:**

    - `edits`: In force besides.
    - `measure`: What is measured then.
    """

    edits: tuple[opto.AbstractEdit, ...]
    measure: Measure

    def __post_init__(self):
        if not isinstance(self.measure, Measure):
            kind = type(self.measure).__name__
            raise ValueError(f"measure is one of forwards, a Measure, got {kind}")


@dataclasses.dataclass(frozen=True)
class OfModel:
    """Something of a model as a whole: of its weights, or of its loss over a batch.

    **Fields:**

    - `fn`: `fn(model, task, batch, edits)` to an array of any shape; it runs compiled.
        The batch has its sequences in front.
    - `axes`, `label`, `text`: As for `Measure`.
    - `needs`: Attributes that the model must have, such as `unembed`.
    - `reads`: `"weights"` of what does not look at the edits, so that a replay under
        some can say that it makes no sense.
    """

    fn: Callable[[Any, Any, PyTree, tuple[opto.AbstractEdit, ...]], Array]
    axes: str = ""
    label: str = ""
    text: str = ""
    reads: Literal["weights", "forwards"] = "forwards"
    needs: tuple[str, ...] = ()


AnyMeasure = Measure | Under | OfModel


def lacking(measure: AnyMeasure, table: opto.Sites, model: Any) -> str:
    """Why a model does not have what a measure reads, in words; nothing if it has it.

    **Arguments:** `table`: The model's sites.
    """
    plain = measure.measure if isinstance(measure, Under) else measure
    kind = type(model).__name__
    if isinstance(plain, OfModel):
        missing = [name for name in plain.needs if not hasattr(model, name)]
        return f"it needs {missing[0]!r}, which {kind} does not have" if missing else ""
    for pattern in plain.record:
        try:
            found = table.match(pattern)
        except ValueError as error:
            if not pattern.startswith("tokens."):
                return str(error)
            return f"it needs token roles ({pattern!r}), which {kind} does not name"
        for site in found if plain.shares else ():
            if site.rows and site.rows.are != "distribution":
                return _no_shares(plain.label, site.name, site.rows)
    return ""


def check_shares(label: str, name: str, record: opto.Record) -> None:
    """Raises `ValueError` for a pattern whose rows are not shares of attention."""
    rows = record.rows_of(name)
    if rows and rows.are != "distribution":
        raise ValueError(_no_shares(label, name, rows))


def _no_shares(label: str, name: str, rows: opto.Rows) -> str:
    wanted = f"{label} is of rows that are a 'distribution'"
    return f"{wanted}; at {name!r} {rows.of} has {rows.are!r} ones"


def sites_of(measures: Mapping[str, Measure] | Iterable[Measure]) -> list[str]:
    """The sites that some measures read, each once."""
    found = measures.values() if isinstance(measures, Mapping) else measures
    return list(dict.fromkeys(site for measure in found for site in measure.record))


def _whole(index: np.ndarray) -> bool:
    return np.issubdtype(index.dtype, np.integer)
