"""Which experiments are one program: those that differ only in numbers."""

from collections.abc import Hashable, Mapping
from typing import Any

import equinox as eqx
import jax

import opto
from icl import Experiment
from icl.config import to_json
from icl.edits.grafts import parse_edit, with_models


def program(experiment: Experiment, others: Mapping[str, Experiment]) -> Hashable:
    """A key that two experiments share exactly if they can train together.

    It leaves out seeds, the numbers of the optimizer, the arrays of edits, and which
    run the experiment starts from, grafts from or measures heads on.

    **Arguments:**

    - `others`: Experiments by the absolute path of their run folders. They tell the
        shapes of grafted models that do not exist yet.
    """
    config = to_json(experiment.with_any_heads())
    for field in ("init_seed", "train_seed", "eval_seed", "start"):
        del config[field]
    if config["data"] is not None:
        config["data"].pop("seed", None)
    config["optimizer"] = _without_numbers(config["optimizer"])
    texts = config.pop("edits")
    return _frozen(config), tuple(_shape(parse_edit(text), others) for text in texts)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_numbers(item) for name, item in value.items()}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "a number" if number else value


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(sorted((name, _frozen(item)) for name, item in value.items()))
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return value


def _shape(edit: opto.AbstractEdit, others: Mapping[str, Experiment]) -> Hashable:
    """The structure of an edit, and the shapes of its arrays."""
    grafted: list[Hashable] = []

    def note(graft: opto.Graft) -> Any:
        other = others.get(str(graft.source))
        if other is None:
            grafted.append(graft.source)
        else:
            grafted.append((program(other, others), _repeated(graft, other)))
        return _any_model

    (bare,) = with_models((edit,), note)
    arrays, static = eqx.partition(bare, eqx.is_array)
    shapes = tuple((x.shape, str(x.dtype)) for x in jax.tree.leaves(arrays))
    rest = tuple(map(repr, jax.tree.leaves(static)))
    return jax.tree.structure(bare), shapes, rest, tuple(grafted)


def _repeated(graft: opto.Graft, other: Experiment) -> bool:
    """Whether a graft's edits begin with the edits of the other run's training.

    If so, loading the graft does not add those edits again.
    """
    own = [parse_edit(text).text() for text in other.with_any_heads().edits]
    return [edit.text() for edit in graft.edits[: len(own)]] == own


def _any_model() -> None:
    """Stands for a model that does not exist yet."""
