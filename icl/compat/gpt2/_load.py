"""A folder of Hugging Face as a model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from ...models.gpt2 import GPT2Tokens
from ...text import read_json
from .._stored import empty, filled, is_mask
from ._names import HEAD, PREFIX, stored
from ._settings import read_settings


_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"


def load(folder: str | os.PathLike[str]) -> GPT2Tokens:
    """The GPT-2 of a folder that Hugging Face's `save_pretrained` wrote.

    `model(ids)` takes whole numbers `[seq]` and gives logits `[seq, vocab]`, without
    dropout. Weights of 16 bits become float32. Weights may be in one file or in several
    with an index. Names may have the prefix `transformer.` or not. Stored masks are
    ignored, and so is a stored `lm_head` that is tied and equal to `wte`.

    **Raises:** `ValueError`, in one line, for a file that is missing or damaged, for
    settings that are not supported, and for arrays that are missing, left over, of
    another shape or no floats.
    """
    folder = Path(folder)
    path = folder / "config.json"
    settings = _read_object(path)
    try:
        config, interface = read_settings(settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    arrays = _read_weights(folder)
    try:
        short = _without_prefix(arrays)
        arrays = {name: x for name, x in short.items() if not is_mask(name)}
        if config.tied:
            _drop_tied(arrays)
        model = empty(config, interface)
        return filled(model, arrays, stored(model))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ValueError(f"cannot read {path}: {reason}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(found).__name__}")
    return found


def _read_weights(folder: Path) -> dict[str, np.ndarray]:
    if (folder / _WEIGHTS).is_file():
        return _read_file(folder / _WEIGHTS)
    if not (folder / _INDEX).is_file():
        raise ValueError(f"{folder} has neither {_WEIGHTS} nor {_INDEX}")
    where = _read_object(folder / _INDEX).get("weight_map")
    if not isinstance(where, dict) or not all(map(_is_file_name, where.values())):
        wanted = "weight_map, from the name of an array to that of a file beside it"
        raise ValueError(f"{folder / _INDEX} must have a {wanted}")
    found: dict[str, np.ndarray] = {}
    for name in sorted({*where.values()}):
        shard = _read_file(folder / name)
        wanted = {array for array, file in where.items() if file == name}
        if different := sorted(wanted ^ shard.keys()):
            raise ValueError(f"{folder / name} and {_INDEX} differ in {different[0]}")
        found |= shard
    return found


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and bool(name) and Path(name).name == name


def _read_file(path: Path) -> dict[str, np.ndarray]:
    try:
        with safetensors.safe_open(path, "np") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}
    except (OSError, safetensors.SafetensorError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot read {path}: {reason}") from None


def _without_prefix(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    short = {name.removeprefix(PREFIX): array for name, array in arrays.items()}
    if len(short) < len(arrays):
        twice = next(name for name in arrays if f"{PREFIX}{name}" in arrays)
        raise ValueError(f"{twice} is there with and without {PREFIX!r}")
    return short


def _drop_tied(arrays: dict[str, np.ndarray]) -> None:
    """Removes an unembedding that is stored although it is the embedding's table."""
    own = arrays.pop(HEAD, None)
    if own is not None and not np.array_equal(own, arrays.get("wte.weight", own)):
        why = "tie_word_embeddings is true"
        raise ValueError(f"{HEAD} must be equal to wte.weight, because {why}")
