"""The config fields in which the runs of a study differ."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def swept(folder: Path, configs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each field in which runs differ, its value in each run that has it.

    Fields are named by dotted paths, such as `optimizer.learning_rate.rate`. A list is
    one value: its items as texts, joined. A path to a run in `folder` becomes the run's
    name.
    """
    # Only at the start of a path, as the folder may be part of another path.
    inside = re.compile(rf"(?<![^'\"]){re.escape(str(folder))}/")
    fields: dict[str, dict[str, Any]] = {}
    for run, config in configs.items():
        for path, value in _leaves(config):
            short = inside.sub("", value) if isinstance(value, str) else value
            fields.setdefault(path, {})[run] = short
    # Compared as JSON, where 1 and true differ.
    texts = {
        path: {json.dumps(values.get(run)) for run in configs}
        for path, values in fields.items()
    }
    return {
        path: values
        for path, values in fields.items()
        if len(texts[path]) > 1 and not _says_nothing(path, values)
    }


def _says_nothing(path: str, values: Mapping[str, Any]) -> bool:
    """Whether a field is a `type` with the same value in all runs that have it."""
    return path.endswith("type") and len({*values.values()}) == 1


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a config by their dotted paths, without those that are null."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        texts = [x if isinstance(x, str) else json.dumps(x) for x in value]
        yield path, "; ".join(texts)
    elif value is not None:
        yield path, value


def column(values: Mapping[str, Any], runs: Iterable[str]) -> np.ndarray:
    """A field in each of the runs: numbers or booleans if possible, else texts."""
    found = [values.get(run) for run in runs]
    kinds = {type(x) for x in values.values()}
    absent = any(x is None for x in found)
    if kinds == {int} and not absent:
        return np.array(found, np.int64)
    if kinds <= {int, float}:
        return np.array([np.nan if x is None else x for x in found], np.float64)
    if kinds == {bool} and not absent:
        return np.array(found, bool)
    texts = [x if isinstance(x, str) else json.dumps(x) for x in found]
    return text("" if x is None else t for x, t in zip(found, texts, strict=True))


def text(values: Iterable[str]) -> np.ndarray:
    """Texts as an array of Python strings."""
    return np.array(list(values), object)
