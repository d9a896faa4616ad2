"""Heads of another run, ranked by what they do there; texts of edits name them."""

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
    """Heads of one layer of another run, ranked by how strongly they do something.

    The initialisation decides which heads come to do what. So a head's number in one
    run means nothing in a run with another initialisation.
    """

    run: str
    """The run's folder."""
    measure: Literal["induction_strength", "previous_token"]
    """What they are ranked by: `icl.edits.heads.induction_strength`, or
    `opto.heads.previous_token` of the labels. It is the mean over sequences."""
    layer: int
    """The layer of the heads."""
    ranks: tuple[int, ...] = (0,)
    """0 is the strongest head, 1 the second; -1 is the weakest."""
    set: str = "train"
    """The evaluation set of that run on which the heads are measured."""
    checkpoint: int = -1
    """The checkpoint of that run, in sequences seen; -1 is the last."""

    def __post_init__(self):
        if not self.run:
            raise ValueError("run must be a run folder, got ''")
        if self.layer < 0:
            raise ValueError(f"layer must be 0 or more, got {self.layer!r}")
        if not self.ranks or len({*self.ranks}) < len(self.ranks):
            wanted = "one or more whole numbers, each once"
            raise ValueError(f"ranks must be {wanted}, got {self.ranks!r}")

    def pinned(self, last: Callable[[str], int]) -> "RankedHeads":
        """The same heads, with an absolute path and a checkpoint number.

        **Arguments:**

        - `last`: Gives the last checkpoint of the run at an absolute path.
        """
        path = os.path.abspath(self.run)
        checkpoint = last(path) if self.checkpoint == -1 else self.checkpoint
        return dataclasses.replace(self, run=path, checkpoint=checkpoint)

    def of(self, strengths: Float[np.ndarray, " head"]) -> tuple[int, ...]:
        """The heads with these ranks, given the strength of each head of the layer.

        **Raises:** `ValueError` if a rank is out of range, if two ranks are the same
        head, and if a strength is not finite.
        """
        count = len(strengths)
        if not np.all(np.isfinite(strengths)):
            raise ValueError(f"heads with strengths {strengths} cannot be ranked")
        for rank in self.ranks:
            if not -count <= rank < count:
                wanted = f"between {-count} and {count - 1}, for {count} heads"
                raise ValueError(f"ranks must be {wanted}, got {rank}")
        order = np.argsort(-strengths, kind="stable")
        heads = tuple(int(order[rank]) for rank in self.ranks)
        if len({*heads}) < len(heads):
            raise ValueError(f"ranks {self.ranks} of {count} heads name a head twice")
        return heads


@dataclasses.dataclass(frozen=True)
class FoundHeads:
    """The heads that a measurement found."""

    heads: tuple[int, ...]
    """In the order of the ranks."""
    strengths: tuple[float, ...]
    """The strength of every head of the layer."""


def measured_heads(wanted: Mapping[str, RankedHeads]) -> dict[str, FoundHeads]:
    """Measures heads on their runs, under the edits that these were trained under.

    **Raises:** `ValueError` if the run, checkpoint, set, layer or rank does not exist.
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
        has = f"the run has {', '.join(map(repr, sets)) or 'none'}"
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
        wanted = f"{ranked.measure} needs attention whose rows are a 'distribution'"
        raise ValueError(f"{wanted}; {pattern!r} of {rows.of} has {rows.are!r} rows")

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
    """How much each label attends to the token before it."""
    return opto.heads.previous_token(pattern, role == LABEL)


_DETECTORS: dict[str, Callable[..., Float[Array, " head"]]] = {
    "induction_strength": induction_strength,
    "previous_token": _previous_token,
}


# The heads that were found are kept in the run folder. So a run can be read after the
# other run is gone, and it always resumes under the edits that it began under.


def kept_heads(
    folder: str | os.PathLike, wanted: Mapping[str, RankedHeads]
) -> dict[str, FoundHeads] | None:
    """The heads that a run began with; `None` if it has not begun or needs none.

    **Raises:** `ValueError` if their names or numbers are not as wanted.
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
        raise ValueError(f"{file} belongs to another config: it has heads {[*counts]}")
    return found


def keep_heads(folder: Path, found: Mapping[str, FoundHeads]) -> None:
    """Writes the heads to the run folder, unless they are there already."""
    file = folder / _FILE
    if found and not file.exists():
        content = {name: to_json(heads) for name, heads in found.items()}
        with disk(folder):
            keep(folder, _FILE, json.dumps(content, indent=2))


_FILE = "heads.json"


def with_heads(
    texts: Iterable[str], heads: Mapping[str, tuple[int, ...]]
) -> tuple[str, ...]:
    """The texts of edits, with the names of heads replaced by their indices.

    A text has `{name}` where an index would be. A text without names is not changed.

    **Raises:** `ValueError` for a name that is not in `heads`, and for one that no text
    uses.
    """
    texts = tuple(texts)
    used = [name for text in texts for name in names(text)]
    for name in used:
        if name not in heads:
            known = ", ".join(heads) or "none"
            hint = did_you_mean(name, heads) or f"; heads has {known}"
            raise ValueError(f"edits name {{{name}}}, which is not in heads{hint}")
    for name in heads:
        if name not in used:
            raise ValueError(f"heads has {name!r}, which no edit names as {{{name}}}")
    one_or_more = {n: h[0] if len(h) == 1 else [*h] for n, h in heads.items()}
    return tuple(filled(text, one_or_more) for text in texts)
