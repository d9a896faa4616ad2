"""A folder of Hugging Face as a model, and back."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...config import of_kind
from ...models.gpt2 import GPT2Tokens
from .._config import read_file
from .._safetensors import StoredArrays, write_folder
from .._stored import body, empty, read, Stored, with_arrays, without_masks
from ._settings import read_settings, write_settings


_PREFIX = "transformer."
_HEAD = "lm_head.weight"


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
    settings = read_file(path)
    try:
        config, interface = read_settings(settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    arrays = StoredArrays(folder)
    try:
        model = empty(config, interface)
        arrays = without_masks(_without_prefix(arrays), model)
        if config.tied:
            _drop_tied(arrays)
        return with_arrays(model, arrays, _stored(model))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def save(model: GPT2Tokens, folder: str | os.PathLike[str]) -> None:
    """Writes `config.json` and `model.safetensors`; `load` gives the same bits back.

    Files of these names in the folder are replaced. An index of weights in several
    files is removed.

    **Raises:** `ValueError` for a model that a GPT-2 of Hugging Face cannot be: one of
    points, with another kind of attention, or with folded norms; and if there can be no
    folder at this path.
    """
    of_kind(model, GPT2Tokens, "save")
    if model.untied is not None and model.untied.bias is not None:
        raise ValueError("the unembedding must have no bias; were the norms folded?")
    settings = write_settings(model)
    found = read(model, _stored(model))
    arrays = {name if name == _HEAD else _PREFIX + name: x for name, x in found.items()}
    write_folder(Path(folder), settings, arrays)


def _stored(model: GPT2Tokens) -> dict[str, Stored]:
    """What each array is, without prefix; a tied unembedding has none."""
    found = {"wte.weight": Stored(("embedding.weight",))}
    found |= body(model, transposed=True)
    if model.untied is not None:
        found[_HEAD] = Stored(("untied.weight",))
    return found


def _without_prefix(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    short = {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
    if len(short) < len(arrays):
        twice = next(name for name in arrays if f"{_PREFIX}{name}" in arrays)
        raise ValueError(f"{twice} is there with and without {_PREFIX!r}")
    return short


def _drop_tied(arrays: dict[str, np.ndarray]) -> None:
    """Removes an unembedding that is stored although it is the embedding's table."""
    own = arrays.pop(_HEAD, None)
    if own is not None and not np.array_equal(own, arrays.get("wte.weight", own)):
        why = "tie_word_embeddings is true"
        raise ValueError(f"{_HEAD} must be equal to wte.weight, because {why}")
