"""A model as a folder that Hugging Face reads."""

import json
import os
from pathlib import Path

from safetensors.numpy import save as to_bytes

from ...config import of_kind
from ...files import write_bytes
from ...models.gpt2 import GPT2Tokens
from .._stored import read
from ._names import HEAD, INDEX, PREFIX, stored, WEIGHTS
from ._settings import write_settings


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
    found = read(model, stored(model))
    arrays = {name if name == HEAD else PREFIX + name: x for name, x in found.items()}
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"cannot make the folder {folder}: {reason}") from None
    # Hugging Face refuses files without this note.
    weights = to_bytes(arrays, metadata={"format": "pt"})
    write_bytes(folder / WEIGHTS, weights)
    (folder / INDEX).unlink(missing_ok=True)
    text = json.dumps(settings, indent=2) + "\n"
    write_bytes(folder / "config.json", text.encode())
