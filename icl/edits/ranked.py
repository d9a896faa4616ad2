"""Heads of another run by what they do there, as the texts of edits name them."""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

import opto
from opto.hints import did_you_mean

from ..batches import first_of
from ..config import from_json, to_json
from ..roles import LABEL, LABELS, PAIR, ROLE
from ..runs import disk, keep, read_object, was_kept
from .donors import Donor, read_donor
from .heads import induction_strength
from .names import filled, names


@dataclasses.dataclass(frozen=True)
class RankedHeads:
    """Heads of a layer of another run, by how strongly they do something there.

    Which heads come to do what is the matter of an initialisation, so that no number
    that is read off one run means anything in another.
    """

    run: str
    """Its folder."""
    measure: Literal["induction_strength", "previous_token"]
    """What they do: `icl.edits.heads.induction_strength`, or
    `opto.heads.previous_token` of the labels; the mean over sequences."""
    layer: int
    """The layer they are in."""
    ranks: tuple[int, ...] = (0,)
    """0 is the strongest; 1, 2, … are all but it; -1 is the weakest."""
    set: str = "train"
    """The evaluation set of that run on which it is measured."""
    checkpoint: int = -1
    """Sequences seen there; -1 is the last."""

    def __post_init__(self):
        if not isinstance(self.run, str) or not self.run:
            raise ValueError(f"run must be a run folder, got {self.run!r}")
        if self.measure not in _DETECTORS:
            wanted = f"one of {', '.join(_DETECTORS)}"
            raise ValueError(f"measure must be {wanted}, got {self.measure!r}")
        if not _is_whole(self.layer) or self.layer < 0:
            raise ValueError(f"layer must be 0 or more, got {self.layer!r}")
        if not _is_whole(self.checkpoint):
            wanted = "sequences seen, -1 for the last"
            raise ValueError(f"checkpoint must be {wanted}, got {self.checkpoint!r}")
        whole = all(map(_is_whole, self.ranks))
        if not self.ranks or not whole or len({*self.ranks}) < len(self.ranks):
            wanted = "one whole number or more, each once"
            raise ValueError(f"ranks must be {wanted}, got {self.ranks!r}")

    def pinned(self, last: Callable[[str], int]) -> "RankedHeads":
        """The same with an absolute path and the number of the checkpoint.

        **Arguments:**

        - `last`: The last checkpoint of the run at an absolute path.
        """
        path = os.path.abspath(self.run)
        checkpoint = last(path) if self.checkpoint == -1 else self.checkpoint
        return dataclasses.replace(self, run=path, checkpoint=checkpoint)

    def of(self, strengths: Float[np.ndarray, " head"]) -> tuple[int, ...]:
        """The heads with these ranks, by how strong each head is.

        **Raises:** `ValueError` for a rank that is out of range or given twice, and for
        strengths that are not numbers.
        """
        count = len(strengths)
        if not np.all(np.isfinite(strengths)):
            raise ValueError(f"the heads cannot be ranked: they have {strengths}")
        for rank in self.ranks:
            if not -count <= rank < count:
                wanted = f"between {-count} and {count - 1}, for {count} heads"
                raise ValueError(f"ranks must be {wanted}, got {rank}")
        order = np.argsort(-strengths, kind="stable")
        heads = tuple(int(order[rank]) for rank in self.ranks)
        if len({*heads}) < len(heads):
            raise ValueError(f"ranks {self.ranks} of {count} heads name one twice")
        return heads


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class FoundHeads:
    """What a measurement came to."""

    heads: tuple[int, ...]
    """In the order of the ranks."""
    strengths: tuple[float, ...]
    """Of every head of the layer."""


def find_heads(wanted: Mapping[str, RankedHeads]) -> dict[str, FoundHeads]:
    """Measures heads on the runs that they are of, under the edits of their training.

    **Raises:** `ValueError` if there is no such run, checkpoint, set, layer or rank.
    """
    read = functools.cache(read_donor)
    found = {}
    for name, ranked in wanted.items():
        try:
            donor = read(ranked.run, ranked.checkpoint, "take heads from")
            strengths = _strengths(donor, ranked)
            heads = ranked.of(strengths)
        except ValueError as error:
            raise ValueError(f"heads {name!r}, of {ranked.run}: {error}") from None
        found[name] = FoundHeads(heads, tuple(strengths.tolist()))
    return found


def _strengths(trained: Donor, ranked: RankedHeads) -> Float[np.ndarray, " head"]:
    sets = trained.evaluations
    if ranked.set not in sets:
        has = f"it has {', '.join(map(repr, sets)) or 'none'}"
        raise ValueError(f"there is no evaluation set {ranked.set!r}; {has}")
    batch = sets[ranked.set]
    first = first_of(batch)
    detector = _DETECTORS[ranked.measure]
    pattern = f"blocks.{ranked.layer}.attn.pattern"
    sites = (pattern, ROLE, PAIR, LABELS)
    table = opto.sites(trained.task.forward, trained.model, first)
    if pattern not in table:
        count = sum(name.endswith(".attn.pattern") for name in table)
        raise ValueError(f"layer must be below {count}, got {ranked.layer}")
    rows = table[pattern].rows
    if rows and rows.are != "distribution":
        wanted = f"{ranked.measure} is of rows that are a 'distribution'"
        raise ValueError(f"{wanted}; at {pattern!r} {rows.of} has {rows.are!r} ones")

    @eqx.filter_jit
    def mean(model: Any, edits: Any, batch: Any) -> Float[Array, " head"]:
        def one(example: Any) -> Float[Array, " head"]:
            _, record = opto.visit(
                trained.task.forward, model, example, record=sites, edits=edits
            )
            return detector(*(record[site] for site in sites))

        return jnp.mean(jax.vmap(one)(batch), 0)

    return np.asarray(mean(trained.model, trained.edits, batch), np.float64)


def _previous_token(
    pattern: Float[Array, "head seq kv_seq"],
    role: Int[Array, " seq"],
    pair: Int[Array, " seq"],
    label: Int[Array, " exemplar"],
) -> Float[Array, " head"]:
    """The attention of the labels to the token before them."""
    return opto.heads.previous_token(pattern, role == LABEL)


_DETECTORS: dict[str, Callable[..., Float[Array, " head"]]] = {
    "induction_strength": induction_strength,
    "previous_token": _previous_token,
}


# What was found is kept in the run folder: a run is read when the other is gone, and
# goes on under the edits that it began under.


def kept_heads(
    folder: str | os.PathLike, wanted: Mapping[str, RankedHeads]
) -> dict[str, FoundHeads] | None:
    """The heads that a run began with; `None` if it has not begun.

    **Raises:** `ValueError` if they are not those that are wanted.
    """
    file = Path(folder) / _FILE
    if not wanted or not was_kept(file):
        return None
    try:
        found = {
            name: from_json(FoundHeads, x) for name, x in read_object(file).items()
        }
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    counts = {name: len(x.heads) for name, x in found.items()}
    if counts != {name: len(ranked.ranks) for name, ranked in wanted.items()}:
        raise ValueError(f"{file} is of another config: it has heads {[*counts]}")
    return found


def keep_heads(folder: Path, found: Mapping[str, FoundHeads]) -> None:
    """Writes them, the first time."""
    file = folder / _FILE
    if found and not file.exists():
        content = {name: to_json(heads) for name, heads in found.items()}
        with disk(folder):
            keep(folder, _FILE, json.dumps(content, indent=2))


_FILE = "heads.json"


def with_heads(
    texts: Iterable[str], heads: Mapping[str, tuple[int, ...]]
) -> tuple[str, ...]:
    """The texts of edits, with heads in the place of their names.

    A text says `{name}` where an index would be; a text that names none stays as it is.

    **Raises:** `ValueError` for a name that is not there, and for one that is not used.
    """
    texts = tuple(texts)
    used = [name for text in texts for name in names(text)]
    for name in used:
        if name not in heads:
            known = ", ".join(heads) or "none"
            hint = did_you_mean(name, heads) or f"; there is {known}"
            raise ValueError(f"edits name {{{name}}}, which is not in heads{hint}")
    for name in heads:
        if name not in used:
            raise ValueError(f"heads has {name!r}, which no edit names as {{{name}}}")
    one_or_more = {n: h[0] if len(h) == 1 else [*h] for n, h in heads.items()}
    return tuple(filled(text, one_or_more) for text in texts)
