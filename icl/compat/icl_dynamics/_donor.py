"""Runs of icl-dynamics as donors of grafts into other runs."""

from pathlib import Path
from typing import Any

import jax

from ...edits.donors import Donor, register_reader
from ...models import exemplar_label_interface
from ...runs import Run
from ._flags import edits_from_config
from ._weights import load_model, load_run


@register_reader
def _donor(path: Path, checkpoint: int) -> Donor:
    """A run folder, or a checkpoint file `…/checkpoints/N.eqx` with `…/config.json`."""
    if path.is_file():
        model = _of_file(path, checkpoint)
        return Donor(model, (), _example(model))
    model, config = load_run(path, checkpoint)
    try:
        edits = tuple(edits_from_config(config, path))
    except RecursionError:
        raise ValueError("a run cannot graft from itself") from None
    return Donor(model, edits, _example(model))


def _of_file(path: Path, checkpoint: int) -> Any:
    folder = path.parents[1]
    if path.suffix != ".eqx" or not (folder / "config.json").is_file():
        raise ValueError(
            "a checkpoint file must be …/checkpoints/N.eqx with …/config.json"
        )
    if checkpoint != -1:
        raise ValueError(f"a file is one checkpoint, but got checkpoint={checkpoint}")
    return load_model(Run(folder).config, path)


def _example(model: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Inputs for one of their models: one pair and a query."""
    dim = getattr(model.embedding.exemplar, "in_features", None)
    size = {"num_exemplars": 1} if dim is None else {"dim": dim}
    return exemplar_label_interface(1, **size, context=1).structs
