"""A folder of Hugging Face as a model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from ...models.gpt2 import GPT2Tokens
from ...text import read_json
from .._stored import empty, filled, without_masks
from ._names import HEAD, INDEX, PREFIX, stored, WEIGHTS
from ._settings import read_settings


def load(folder: str | os.PathLike[str]) -> GPT2Tokens:
    """The GPT-2 of a folder that Hugging Face's `save_pretrained` wrote.

    `model(ids)` takes whole numbers `[seq]` and gives logits `[seq, vocab]`, without
    dropout. Weights of 16 bits become float32. Weights may be in one file or in several
    with an index. Names may have the prefix `transformer.` or not. Causal masks may be
    stored, and so may an `lm_head` that is tied and equal to `wte`.

    **Raises:** `ValueError`, in one line, for a file that is missing or damaged, for
    settings that are not supported, for arrays that are missing, left over, of another
    shape or no floats, and where settings and arrays contradict each other.
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
        model = empty(config, interface)
        arrays = without_masks(_without_prefix(arrays), model)
        if config.tied:
            _drop_tied(arrays)
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
    single, index = folder / WEIGHTS, folder / INDEX
    if not index.is_file():
        if not single.is_file():
            raise ValueError(f"{folder} has neither {WEIGHTS} nor {INDEX}")
        return _read_file(single)
    where = _read_object(index).get("weight_map")
    if not isinstance(where, dict) or not all(map(_is_file_name, where.values())):
        wanted = "weight_map, from the name of an array to that of a file beside it"
        raise ValueError(f"{index} must have a {wanted}")
    if single.is_file():
        # Hugging Face leaves an index behind where one file replaces several.
        if any((folder / name).is_file() for name in {*where.values()} - {WEIGHTS}):
            raise ValueError(f"{folder} has both {WEIGHTS} and {INDEX}: remove one")
        return _read_file(single)
    found: dict[str, np.ndarray] = {}
    for name in sorted({*where.values()}):
        shard = _read_file(folder / name)
        wanted = {array for array, file in where.items() if file == name}
        if different := sorted(wanted ^ shard.keys()):
            raise ValueError(f"{folder / name} and {INDEX} differ in {different[0]}")
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
