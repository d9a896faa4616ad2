"""YAML files that inherit from others."""

from pathlib import Path
from typing import Any

import yaml


def read_keys(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The keys of a file, over those of the files that it inherits from.

    **Arguments:** `above`: The files that inherit from this one.

    **Raises:** `ValueError`, in one line, for a file that cannot be read, has no keys
    or has one twice, and for files that inherit from themselves.
    """
    if path.resolve() in above:
        raise ValueError(f"{path} inherits from itself")
    try:
        found = yaml.load(path.read_text("utf-8"), _Loader)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot read {path}: {reason}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must have keys, got {type(found).__name__}")
    parents = found.pop("inherit", None) or []
    if not isinstance(parents, list) or not all(isinstance(x, str) for x in parents):
        raise ValueError(f"{path}: inherit must be a list of files, got {parents!r}")
    merged: dict[str, Any] = {}
    for parent in parents:
        inherited = read_keys(path.parent / parent, (*above, path.resolve()))
        merged = _merged(merged, inherited)
    return _merged(merged, found)


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice: YAML would take the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        known = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in known:
                where = f"line {key.start_mark.line + 1}"
                raise yaml.YAMLError(f"{where}: {key.value} stands there twice")
            known.add(key.value)
        return super().construct_mapping(node, deep)


def _merged(under: Any, over: Any) -> Any:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    both = {key: _merged(under[key], over[key]) for key in under if key in over}
    return {**under, **over, **both}
