"""What an edit changes, followed from site to site through a model."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._acting import Acting, is_partial
from ._axes import arrived, Trail
from ._derived import Freeze
from ._edit import Edit, shown
from ._names import INSIDE, last_name, scope_of, WEIGHTS
from ._observed import Observed
from ._reach import Entries, everything, Held, MASKING, Reach
from ._site import Site, Sites
from ._where import is_concrete


_TOKENS = ("seq", "kv_seq")
# Sites outside of layers that feed the rest of the model.
_STREAM = {"embed", "tok_embed", "in", "normed", "logits"}


@dataclasses.dataclass(frozen=True, eq=False)
class Followed:
    """A list of edits whose changes are followed through a model."""

    edits: tuple[Acting, ...]
    table: Sites
    seen: Observed
    _held: dict[Any, Held] = dataclasses.field(default_factory=dict)

    def why_nothing(self, i: int) -> str:
        """Why an edit changes nothing that is seen; "" if it may change something."""
        acting = self.edits[i]
        if acting.at is None or acting.idle or any(e.at is None for e in self.edits):
            return ""
        for j, later in enumerate(self.edits):
            if j > i and later.follows and not self._before(j).why_nothing(i):
                return ""
        left, why = {}, "it selects no entry; choose others"
        for name in acting.at:
            entries, reason = self._left(i, name)
            if entries.any():
                left[name] = entries
            why = reason or why
        if not left:
            return why
        if self.seen.recorded & left.keys():
            return ""
        if any(self._leaves(i, name, entries) for name, entries in left.items()):
            return ""
        if isinstance(acting.edit, Freeze):
            return ""  # It need not change anything by itself: it says what stays.
        return self._lost(i, left)

    def _before(self, j: int) -> "Followed":
        """The edits before edit `j`, which reads the run under them."""
        read = Observed.only(self.edits[j].follows, shown(self.edits[j].edit))
        return Followed(self.edits[:j], self.table, read)

    def _left(self, i: int, name: str) -> tuple[Entries, str]:
        """What an edit changes at its own site and later ones leave, or why nothing."""
        reach, same = self._reach(i, name), self._same(i, name)
        left = np.asarray(reach.may & ~same)
        if not reach.may.any():
            return left, ""
        if not left.any():
            held, same = np.broadcast_arrays(self.held(name, i), same)
            return left, self._why_same(name, held[same])
        for j, sets in self._setting(name):
            if j > i and not (left := np.asarray(left & ~sets())).any():
                later = shown(self.edits[j].edit)
                why = f"{later}, later in the list, sets the same entries"
                return left, f"{why}; leave one of them out"
        return left, ""

    def _reach(self, i: int, name: str) -> Reach:
        at = self.edits[i].at
        assert at is not None
        return at[name]

    def _same(self, i: int, name: str) -> Entries:
        """The entries of a site that an edit leaves at their known value."""
        held = self.held(name, i)
        made = self._reach(i, name).makes(held)
        return np.asarray(~np.isnan(held) & (made == held))

    def _why_same(self, name: str, held: Held) -> str:
        if np.isneginf(held).any():
            return "the scores that it selects are masked: no query sees these keys"
        if self.unseen(name) is not None and not held.any():
            return "the selected entries are 0 already: no query sees these keys"
        return "an earlier edit sets these entries, and this one does not change them"

    def _setting(self, name: str) -> list[tuple[int, Any]]:
        """Which edits set entries of a site: the place of each, and its entries."""
        return [
            (j, acting.at[name].sets)
            for j, acting in enumerate(self.edits)
            if acting.at and name in acting.at and acting.at[name].sets is not None
        ]

    def unseen(self, name: str) -> Entries | None:
        """The entries of attention whose key the query does not see, if known."""
        site = self.table[name]
        if site.rows is None or site.rows.seen is None or len(site.shape) < 2:
            return None
        rank = len(site.shape)
        return ~np.reshape(site.rows.seen, (*(1,) * (rank - 2), *site.shape[-2:]))

    def held(self, name: str, before: int | None = None) -> Held:
        """What is known of the entries of a site before an edit, or after all edits."""
        if (name, before) not in self._held:
            self._held[name, before] = self._holds(name, before)
        return self._held[name, before]

    def _holds(self, name: str, before: int | None) -> Held:
        site = self.table[name]
        held = np.full((1,) * len(site.shape), np.nan)
        if any(acting.at is None for acting in self.edits):
            return held
        unseen = self.unseen(name)
        if unseen is not None and site.rows is not None:
            masked = unseen
            first = -np.inf if site.rows.are == "logits" else 0.0
            for other in ("scores", "kernel"):
                source = f"{scope_of(name)}.{other}".lstrip(".")
                if source != name and source in self.table:
                    masked = masked & (self.held(source) == _masked(self.table[source]))
            held = np.asarray(np.where(masked, first, np.nan))
        for acting in self.edits[:before]:
            if acting.at and name in acting.at:
                reach = acting.at[name]
                held = np.asarray(np.where(reach.may, reach.makes(held), held))
        return held

    def _leaves(self, i: int, name: str, entries: Entries) -> bool:
        """Whether no other edit can undo what an edit changes at a site.

        This is a quick check: the output of attention is added to the residual stream,
        and edits inside of other attention do not touch that stream.
        """
        last, scope = last_name(name), scope_of(name)
        if not self.seen.outputs:
            return False
        if self.table[name].layer is None and last not in _STREAM:
            return False  # Such as a site that says what tokens are: maybe never read.
        tokens = [k for k, axis in enumerate(self.table[name].axes) if axis in _TOKENS]
        if any(entries.shape[k] > 1 for k in tokens):
            return False  # Some tokens may see only one key, or not be read.
        return not any(
            self._order[other] > self._order[name]
            and (last_name(other) not in INSIDE or scope_of(other) == scope)
            and not (last in ("v", "v_in") and last_name(other) in WEIGHTS)
            for other in self._set_by_others(i)
        )

    @functools.cached_property
    def _order(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.table)}

    def _set_by_others(self, i: int) -> list[str]:
        """The sites with entries that other edits set."""
        return [
            name
            for j, acting in enumerate(self.edits)
            for name, reach in (acting.at or {}).items()
            if j != i and reach.sets is not None
        ]

    def _lost(self, i: int, left: dict[str, Entries]) -> str:
        """Why what an edit changes is never seen; "" if it is seen."""
        flow = self.table.flow
        if flow is None:
            return ""
        changed, stopped = self.changed(i)
        if changed.keys() & self.seen.recorded:
            return ""
        if self.seen.outputs and any(
            (entries & flow.outputs.get(name, np.False_)).any()
            for name, entries in changed.items()
        ):
            return ""
        if any(self._leaves(i, n, x) for n, x in changed.items() if n not in left):
            return ""
        if changed.keys() & flow.opaque and self.seen.outputs:
            return ""
        first = min(left, key=self._order.__getitem__)
        return self._why_lost(first, changed, stopped)

    def changed(self, i: int) -> tuple[dict[str, Entries], list[tuple[str, Any]]]:
        """The entries of each site that an edit changes when all edits are in force.

        The second result lists the sites where another edit sets all changed entries,
        each with that edit.
        """
        own = self.edits[i].at
        assert own is not None
        changed: dict[str, Entries] = {}
        stopped: list[tuple[str, Any]] = []
        for name, site in self.table.items():
            now = self._arriving(site, changed)
            for j, acting in enumerate(self.edits):
                if not acting.at or name not in acting.at:
                    continue
                if j == i:
                    now = now | (acting.at[name].may & ~self._same(i, name))
                elif (sets := acting.at[name].sets) is not None:
                    was, now = now, now & ~sets()
                    if was.any() and not now.any():
                        stopped.append((name, acting.edit))
            if now.any():
                changed[name] = np.asarray(now)
                if name not in own and self._leaves(i, name, changed[name]):
                    break
        return changed, stopped

    def _why_lost(
        self, site: str, changed: dict[str, Entries], stopped: list[tuple[str, Any]]
    ) -> str:
        if stopped:
            where, by = stopped[-1]
            feeds = "" if where == site else f"{site!r} feeds only into "
            return f"{feeds}{where!r}, which {shown(by)} sets; leave one of them out"
        if self.seen.read_by:
            reads = ", ".join(map(repr, sorted(self.seen.recorded)))
            reader = self.seen.read_by
            return f"{reader} reads only {reads}, and this edit is at {site!r}"
        last = max(changed, key=self._order.__getitem__)
        if self.table.flow and last in self.table.flow.outputs:
            way = "" if last == site else f"it changes some of {last!r}, and "
            return f"{way}the outputs are made of other entries of {last!r}"
        if last_name(site) in INSIDE:
            return "its queries see only one key, which always gets all attention"
        return f"nothing reads what it changes at {site!r}; record it or drop the edit"

    def _arriving(self, site: Site, changed: dict[str, Entries]) -> Entries:
        """The entries of a site that change because what it is made of changes."""
        now = np.zeros((1,) * len(site.shape), bool)
        if not changed:
            return now
        flow = self.table.flow
        assert flow is not None
        sources: Mapping[str, Trail | None]
        sources = flow.sources.get(site.name, dict.fromkeys(changed))
        own = scope_of(site.name)
        # If an edit is at `result`, `out` is the sum of that and not made of `z`.
        summed = last_name(site.name) == "out" and self._edited(f"{own}.result")
        for name in (sources.keys() | flow.opaque) & changed.keys():
            if not (summed and name == f"{own}.z"):
                trail = sources.get(name)
                came = self._carried(name, site, changed[name], trail)
                now = np.asarray(now | came)
        # Masked entries stay masked on any input.
        return np.asarray(now & np.isnan(self.held(site.name, 0)))

    def _edited(self, name: str) -> bool:
        return any(acting.at and name in acting.at for acting in self.edits)

    def _carried(
        self, name: str, site: Site, entries: Entries, trail: Trail | None
    ) -> Entries:
        """The entries of a site that change because entries of another site do."""
        within = scope_of(name) == scope_of(site.name)
        if within and (last_name(name), last_name(site.name)) == ("scores", "pattern"):
            entries = np.asarray(entries & self._choosing(self.table[name], site))
        if within and (last_name(name), last_name(site.name)) == ("v", "z"):
            return self._gathered(name, site, entries)
        if trail is None:  # Where its axes go is not known.
            return everything(site) & entries.any()
        return arrived(entries, trail, len(site.shape))

    def _gathered(self, values: str, site: Site, entries: Entries) -> Entries:
        """The entries of `z` of the queries that see a changed value."""
        pattern = self.table.get(f"{scope_of(values)}.pattern")
        heads, keys = self.table[values].shape[:-2], self.table[values].shape[-2:-1]
        if pattern is None or pattern.shape != (*heads, *site.shape[-2:-1], *keys):
            return everything(site) & entries.any()
        seen = self.held(pattern.name) != 0
        changed = np.expand_dims(entries.any(-1), -2)
        return np.expand_dims((seen & changed).any(-1), -1)

    def _choosing(self, scores: Site, pattern: Site) -> Entries:
        """The rows of a softmax with two visible keys or more; one key gets it all."""
        if not scores.rows or scores.rows.are != "logits":
            return everything(scores)
        if not pattern.rows or pattern.rows.are != "distribution":
            return everything(scores)
        if self._may_be_nan(scores.name) or self._may_mask(scores):
            return everything(scores)
        masked = np.broadcast_to(np.isneginf(self.held(scores.name)), scores.shape)
        return (~masked).sum(-1, keepdims=True) > 1

    def _may_mask(self, scores: Site) -> bool:
        """Whether an edit may lower a visible score as far as a masked one."""
        edits = [a.edit for a in self.edits if a.at and scores.name in a.at]
        own = [edit for edit in edits if isinstance(edit, Edit)]
        numbers = [number for edit in own for number in edit.given(scores)]
        return not all(
            is_concrete(number) and np.all(abs(np.asarray(number)) < MASKING)
            for number in numbers
        )

    def _may_be_nan(self, name: str) -> bool:
        """Whether an edit may leave no key in a row, so NaN, as `Block` does."""
        return any(
            acting.at and name in acting.at and not isinstance(acting.edit, Edit)
            for acting in self.edits
            if not is_partial(acting.edit)
        )


def _masked(site: Site) -> float:
    return -np.inf if last_name(site.name) == "scores" else 0.0
