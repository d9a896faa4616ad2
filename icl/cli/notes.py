"""Notes on stderr about numbers that a command shows."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def note(command: str, text: str) -> None:
    """Prints a note of `icl <command>`."""
    print(f"icl {command}: note: {text}", file=sys.stderr)


def note_undefined(
    command: str, sets: Mapping[str, Mapping[str, Iterable[Any]]], kind: str
) -> None:
    """Notes once for each metric which values are undefined or too large.

    **Arguments:**

    - `sets`: By set and metric, the values: one for each of what `kind` names.
    - `kind`: In the plural, `sequences`, `checkpoints` or `runs`.
    """
    found: dict[str, list[str]] = {}
    infinite: set[str] = set()
    for name, metrics in sets.items():
        for metric, every in metrics.items():
            values = [*every]
            wrong = [not np.isfinite(value).all() for value in values]
            if any(wrong):
                count = f"{name} ({sum(wrong)} of {len(wrong)} {kind})"
                found.setdefault(metric, []).append(count)
            if any(np.isinf(value).any() for value in values):
                infinite.add(metric)
    for metric, where in found.items():
        state = "infinite or undefined" if metric in infinite else "undefined"
        note(command, f"{metric} is {state} in {', '.join(where)}")
