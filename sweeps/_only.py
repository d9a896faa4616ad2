"""Runs that are chosen by patterns of their names."""

import difflib
import fnmatch
from collections.abc import Collection, Sequence


_SHOWN = 8


def matching(only: Sequence[str], runs: Collection[str]) -> list[str]:
    """The runs that match one of the patterns, or all if there is no pattern.

    **Raises:** `ValueError` for a pattern that no run matches.
    """
    for pattern in only:
        if not fnmatch.filter(runs, pattern):
            close = difflib.get_close_matches(pattern, runs, n=1, cutoff=0.3)
            more = ", …" if len(runs) > _SHOWN else ""
            known = f"runs: {', '.join(list(runs)[:_SHOWN])}{more}"
            hint = f"did you mean {close[0]!r}?" if close else known
            raise ValueError(f"--only: no run matches {pattern!r}; {hint}")
    return [r for r in runs if not only or any(fnmatch.fnmatch(r, p) for p in only)]
