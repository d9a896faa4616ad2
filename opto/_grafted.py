"""The models that grafts take layers from, with the edits of those models."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ._observed import Observed
from ._site import find_sites, one_example, Sites
from .graft import Graft, of_model


class Grafted(NamedTuple):
    """The call of a grafted model, with its edits."""

    fn: Any
    args: tuple[Any, ...]
    edits: tuple[Any, ...]
    table: Sites
    seen: Observed
    """The site that the graft reads."""


def grafted_models(
    fn: Any, args: tuple[Any, ...], edits: Sequence[Any], table: Sites
) -> Iterator[Grafted]:
    """The models of those grafts in a list of edits that have edits of their own."""
    for graft in edits:
        if isinstance(graft, Graft) and graft.model is not None and graft.edits:
            other, theirs = of_model(fn, args, graft.model)
            there = find_sites(other, *one_example(other, theirs)[0])
            if (seam := graft.seam(table)) in there:
                seen = Observed.only([seam], graft.name)
                yield Grafted(other, theirs, graft.edits, there, seen)
