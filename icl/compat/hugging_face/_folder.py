"""A folder of Hugging Face as a model, and back."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from ...config import of_kind
from ...models.decoder import Decoder, DecoderConfig
from ...models.gpt2 import GPT2Tokens
from ...protocols import Input, Interface
from .. import gpt2
from .._config import read_file
from .._safetensors import StoredArrays, write_folder
from .._stored import empty, read, with_arrays
from ._names import is_constant, names, UNEMBEDDINGS
from ._settings import ARCHITECTURES, config_of
from ._written import settings_of


def load(
    folder: str | os.PathLike[str], *, narrow: bool = False
) -> Decoder | GPT2Tokens:
    """The language model of a folder that Hugging Face's `save_pretrained` wrote.

    `model(ids)` takes whole numbers `[seq]` and gives logits `[seq, vocab]`, without
    dropout. The family is the `model_type` of `config.json`: `gpt_neox` (Pythia),
    `llama`, `mistral`, `qwen2`, `qwen3`, `gemma` or `gpt2`. Weights are in one file or
    in several with an index; each array is read when it is put into the model.

    **Arguments:** `narrow`: Whether weights of 16 bits stay so. By default they become
    float32. GPT-2 has no such choice.

    **Raises:** `ValueError`, in one line, for a file that is missing, damaged or
    pickled, for settings that are not supported, for arrays that are missing, left
    over, of another shape, no floats or not finite.
    """
    folder = Path(folder)
    path = folder / "config.json"
    settings = read_file(path)
    if settings.get("model_type") == "gpt2":
        return gpt2.load(folder)
    try:
        config, vocabulary = config_of(settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    arrays = _weights(folder, config.tied)
    try:
        model = empty(config, _interface(vocabulary))
        stored = names(model, settings["model_type"])
        return with_arrays(model, arrays, stored, narrow=narrow)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def save(model: Decoder | GPT2Tokens, folder: str | os.PathLike[str]) -> None:
    """Writes `config.json` and `model.safetensors`; `load` gives the same bits back.

    The family is the first that computes what the model does. Files of these names in
    the folder are replaced. An index of weights in several files is removed.

    **Raises:** `ValueError` for a model that is of no family.
    """
    if isinstance(model, GPT2Tokens):
        return gpt2.save(model, folder)
    of_kind(model, Decoder, "save")
    settings = _settings(model)
    family, vocabulary = settings["model_type"], len(model.embedding.weight)
    stored = names(model, family)
    known = names(empty(model.config, _interface(vocabulary)), family)
    if others := sorted(stored.keys() ^ known.keys()):
        raise ValueError(f"the model and its config differ in {', '.join(others)}")
    arrays = read(model, stored)
    settings["dtype"] = model.embedding.weight.dtype.name
    write_folder(Path(folder), settings, arrays)


def _settings(model: Decoder) -> dict[str, Any]:
    """The `config.json` of the first family whose settings mean the model's config."""
    vocabulary = len(model.embedding.weight)
    for family in ARCHITECTURES:
        try:
            found = settings_of(model.config, vocabulary, family)
            if _function(config_of(found)[0]) == _function(model.config):
                return found
        except (ValueError, KeyError):
            continue  # Not of this family.
    known = ", ".join(ARCHITECTURES)
    raise ValueError(f"no family ({known}) computes this: {model.config}")


def _function(config: DecoderConfig) -> DecoderConfig:
    """A config with the same function as another if and only if that is equal."""
    masks = config.mask if isinstance(config.mask, tuple) else (config.mask,)
    return dataclasses.replace(
        config,
        num_kv_heads=config.num_kv_heads or config.num_heads,
        d_head=config.d_head or config.d_model // config.num_heads,
        d_mlp=config.d_mlp or 4 * config.d_model,
        mask=masks[0] if len({*masks}) == 1 else masks,
        max_length=None,
        init_std=1.0,
    )


def _interface(vocabulary: int) -> Interface:
    return Interface((Input("ids", (1,), "int32", vocabulary),), vocabulary)


def _weights(folder: Path, tied: bool) -> StoredArrays:
    """The arrays without constants, and without a tied unembedding that is stored."""
    arrays = StoredArrays(folder).without(is_constant)
    for own, table in UNEMBEDDINGS.items():
        if tied and own in arrays and table in arrays:
            if not np.array_equal(arrays[own], arrays[table]):
                why = "tie_word_embeddings is true"
                raise ValueError(f"{own} must be equal to {table}, because {why}")
            return arrays.without(lambda name, own=own: name == own)
    return arrays
