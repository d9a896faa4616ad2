"""The sites of a model: what can be recorded and edited."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ._tap import Rows
from .hints import did_you_mean


# Attention's `z` after a step over all heads. A head then has no `result`: what it
# writes depends on the other heads.
_MIXED = "z_post"


@dataclasses.dataclass(frozen=True)
class Site:
    """One named intermediate value of a model, for one example.

    **Fields:**

    - `name`: Dotted, e.g. `blocks.1.attn.pattern`.
    - `axes`: The name of each axis, e.g. `("head", "seq", "kv_seq")`.
    - `shape`: The length of each axis.
    - `dtype`: The dtype of the value.
    - `rows`: What the rows of attention are, if the model says it.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    rows: Rows | None = None

    @property
    def layer(self) -> int | None:
        """The first number in the name: `blocks.1.attn.z` is in layer 1."""
        return layer_of(self.name)

    @property
    def dims(self) -> str:
        """Axes and their lengths, `[head=8 seq=5 d_head=8]`."""
        pairs = zip(self.axes, self.shape, strict=True)
        return "[" + " ".join(f"{axis}={size}" for axis, size in pairs) + "]"

    def matches(self, *patterns: str) -> bool:
        """Whether one of the names or globs selects this site."""
        return any(glob(pattern).fullmatch(self.name) for pattern in patterns)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{self.dims}"


def layer_of(name: str) -> int | None:
    """The first number in a site's name."""
    numbers = [part for part in name.split(".") if part.isdigit()]
    return int(numbers[0]) if numbers else None


def scope_of(name: str) -> str:
    """A site's name without its last part: `blocks.0.attn` of `blocks.0.attn.q`."""
    return name.rpartition(".")[0]


def last_name(name: str) -> str:
    """The last part of a site's name: `q` of `blocks.0.attn.q`."""
    return name.rpartition(".")[2]


def glob(pattern: str) -> re.Pattern[str]:
    """A regular expression for the names that a name or a glob selects."""
    if pattern == "*":
        pattern = "**"  # Who asks for everything does not mean the names without dots.
    regex = re.escape(pattern)
    for sign, meaning in (
        (r"\*\*\.", r"(?:.*\.)?"),
        (r"\.\*\*", r"(?:\..*)?"),
        (r"\*\*", ".*"),
        (r"\*", "[^.]*"),
    ):
        regex = regex.replace(sign, meaning)
    return re.compile(regex)


class Sites(Mapping[str, Site]):
    """The sites of a model in the order of computation; prints as a table."""

    def __init__(self, table: Mapping[str, Site], unread: Callable[[], frozenset[str]]):
        self._table = dict(table)
        # This needs another trace, so it is found on request.
        self._find_unread = unread

    @functools.cached_property
    def unread(self) -> frozenset[str]:
        """The sites where the model does not use what its tap returns.

        An edit there has no effect. Empty if this is not known.
        """
        try:
            return self._find_unread()
        except Exception:
            # Not every model runs with all its values replaced, and a function may
            # close over a value that is gone.
            return frozenset()

    def __reduce__(self) -> Any:
        return _with_unread, (self._table, self.unread)

    def __getitem__(self, name: str) -> Site:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        never = "  (the model does not use what its tap returns)"
        return "\n".join(
            f"{s.name:{width}}  {s.dtype}{s.dims}{never * (s.name in self.unread)}"
            for s in self.values()
        )

    def match(self, pattern: str) -> tuple[Site, ...]:
        """The sites that a name or a glob selects.

        `*` stands for anything within one part of the name (`blocks.*.attn.z`), `**`
        for any number of parts, also none (`**.pattern`). A lone `*` or `**` selects
        every site.

        **Raises:** `ValueError` with the nearest name if no site matches.
        """
        if not isinstance(pattern, str):
            kind = type(pattern).__name__
            raise ValueError(f"a site is given by its name or a glob, got {kind}")
        if pattern in self._table:
            return (self._table[pattern],)
        regex = glob(pattern)
        found = tuple(s for s in self._table.values() if regex.fullmatch(s.name))
        if not found:
            verb = "no site matches" if "*" in pattern else "no site"
            hint = self._lacking(pattern) or self._nearest(pattern)
            raise ValueError(f"{verb} {pattern!r}{hint}")
        return found

    def _lacking(self, pattern: str) -> str:
        """Why there are no scores or no kernel: the attention is of another kind."""
        asked = pattern.split(".")[-1]
        if why := self.not_additive(pattern):
            return f": {why}"
        if asked not in ("scores", "kernel"):
            return ""
        for site in self._table.values():
            has = site.name.split(".")[-1]
            if site.rows and site.rows.are in ("logits", "kernel") and has != asked:
                return f": {site.rows.of} has no {asked} but {site.name!r}"
        return ""

    def not_additive(self, *patterns: str) -> str:
        """Why a selected attention has no `result`; empty if each has one.

        A layer whose heads are mixed writes no sum of what each head writes.
        """
        for site in self._table.values():
            scope = scope_of(site.name)
            result = f"{scope}.result".lstrip(".")
            chosen = any(glob(pattern).fullmatch(result) for pattern in patterns)
            if last_name(site.name) == _MIXED and chosen:
                weights = self._table.get(f"{scope}.pattern".lstrip("."))
                rows = weights.rows if weights else None
                of = rows.of if rows else "this attention"
                return (
                    f"there is no {result!r}, because what a head of {of} writes "
                    f"depends on all heads ({site.name!r})"
                )
        return ""

    def _nearest(self, pattern: str) -> str:
        globs = {re.sub(r"\b\d+\b", "*", name): None for name in self}
        known = [*globs] if "*" in pattern else [*self]
        if hint := did_you_mean(pattern, known, cutoff=0.5):
            return hint
        # Only the end may be right: 'pattern', 'blocks.9.attn.z'.
        last = pattern.split(".")[-1]
        ends = [name for name in self if name.split(".")[-1] == last]
        return f"; sites: {', '.join(ends or list(self))}"


def _with_unread(table: Mapping[str, Site], unread: frozenset[str]) -> Sites:
    """What was pickled: the sites that a model does not use are known."""
    return Sites(table, lambda: unread)
