"""Settings that come with the weights of a public code."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opto.hints import did_you_mean

from ..checks import positive
from ..text import read_json


def read_config(what: str, given: Mapping[str, Any] | str) -> dict[str, Any]:
    """The settings, which are a mapping or its JSON text.

    **Raises:** `ValueError`, which names `what`, for anything else.
    """
    wanted = f"{what} must be a mapping or its JSON"
    try:
        found = read_json(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"{wanted}: {error}") from None
    if not isinstance(found, Mapping):
        raise ValueError(f"{wanted}, got a {type(found).__name__}")
    return dict(found)


def read_file(path: Path) -> dict[str, Any]:
    """The settings of a JSON file.

    **Raises:** `ValueError`, in one line, for a file that cannot be read.
    """
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read {path}: {reason}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(found).__name__}")
    return found


def check_sizes(what: str, given: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises `ValueError` unless all these settings are positive integers."""
    for name in names:
        if name not in given:
            raise ValueError(f"{what} lacks {name!r}")
        positive(f"{what}: {name}", given[name])


def check_misspelt(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises `ValueError` for a name that is nearly, but not quite, a known one.

    Reference files also have settings of training and of data. They say nothing about a
    model, so names that are far from all known ones are allowed.
    """
    known = tuple(known)
    for name in given:
        # Nearer than for a hint, as short names of training are alike by chance.
        if name not in known and (hint := did_you_mean(name, known, cutoff=0.8)):
            raise ValueError(f"{what}: no setting {name!r}{hint}")


def check_known(what: str, given: Iterable[Any], known: Iterable[str]) -> None:
    """Raises `ValueError` for a name that is not known."""
    known = tuple(known)
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            hint = hint or f"; known: {', '.join(known) or 'none'}"
            raise ValueError(f"{what} {name!r}{hint}")
