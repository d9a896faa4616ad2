"""Chooses runs by patterns of their names."""

import fnmatch
from collections.abc import Collection, Sequence

from opto.hints import did_you_mean

from ..text import some_of


def matching(only: Sequence[str], runs: Collection[str]) -> list[str]:
    """The runs that match one of the patterns, or all if there is no pattern.

    **Raises:** `ValueError` for a pattern that no run matches.
    """
    for pattern in only:
        if not fnmatch.filter(runs, pattern):
            hint = did_you_mean(pattern, runs, cutoff=0.3) or f"; runs: {some_of(runs)}"
            raise ValueError(f"--only: no run matches {pattern!r}{hint}")
    return [r for r in runs if not only or any(fnmatch.fnmatch(r, p) for p in only)]
