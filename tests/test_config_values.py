"""Each field of each config class refuses values of the wrong type, in one line."""

import dataclasses
import math
import types
import typing
from typing import Any

import pytest

from icl import Experiment
from icl.config import from_json
from icl.unions import OpenUnion


SPLIT = {"train": 5}
TASK = {"type": "ExemplarLabel", "class_split": SPLIT, "exemplar_split": SPLIT}
RAMP = {"start": 2, "end": 5, "increment": 1, "interval": 10}
# Values for fields without a default, by class.
REQUIRED: dict[str, dict[str, Any]] = {
    "Experiment": {"task": TASK},
    "ExemplarLabel": TASK,
    "OneHotClasses": {"num_classes": 5},
    "HDF5Classes": {"file": "a.h5"},
    "Constant": {"rate": 0.1},
    "WarmupDecay": {"peak": 0.1, "warmup": 2},
    "Cosine": {"peak": 0.1, "total": 5},
    "OneCycle": {"peak": 0.1, "total": 5, "warmup": 2},
    "OneCycleMomentum": {"total": 5, "warmup": 2},
    "NoisyLabels": {"probability": 0.1},
    "Every": {"sequences": 5},
    "At": {"sequences": [5]},
    "LogSpaced": {"count": 3},
    "Dense": {"start": 1, "stop": 2, "inside": 1, "outside": 1},
    "Mixture": {"contexts": [{}], "probabilities": [1.0]},
    "Zipf": {"alpha": 1.0},
    "Split": SPLIT,
    "RankedHeads": {"run": "a", "measure": "previous_token", "layer": 0},
    "Start": {"run": "a"},
    "ScaledInputs": {"scale": 2.0},
    "ScaledQuery": {"scale": 2.0},
    "SubspaceInputs": {"removed": 1},
    "Ramp": RAMP,
    "Curriculum": {"dims": RAMP, "points": RAMP},
    "CorrelatedInputs": {"covariance": [[1.0]]},
    "NoisyValues": {"probability": 0.1},
    "RandomPairs": {"probability": 0.1},
    "Window": {"size": 3},
}
# Fields where a negative number has a meaning.
SIGNED = {
    ("TransformerConfig", "scale"),
    ("GPT2Config", "scale"),
    ("RankedHeads", "checkpoint"),
    ("Start", "checkpoint"),
}
VALUES = {
    "true": True,
    "text": "x",
    "number as text": "1e-4",
    "nan": math.nan,
    "inf": math.inf,
    "-1": -1,
    "-1.0": -1.0,
    "half": 0.5,
    "list": [],
    "object": {},
    "null": None,
    "10**30": 10**30,
    "10**400": 10**400,
}


def options(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def classes(hint: Any, found: dict[str, type]) -> dict[str, type]:
    """Every config class that a field of this type can hold, also nested."""
    for option in options(hint):
        for part in typing.get_args(option):
            if not isinstance(part, str):
                classes(part, found)
        members = {}
        if isinstance(option, type) and OpenUnion in option.__bases__:
            members = option.members()
        elif dataclasses.is_dataclass(option) and isinstance(option, type):
            members = {option.__name__: option}
        for name, member in members.items():
            # Other tests define their own kinds.
            if name not in found and member.__module__.startswith("icl."):
                found[name] = member
                for inner in typing.get_type_hints(member).values():
                    classes(inner, found)
    return found


CLASSES = classes(Experiment, {})


def may_be(value: Any, hint: Any, signed: bool) -> bool:
    """Returns whether a value has a type that the field's hint allows."""
    kinds = [*map(typing.get_origin, options(hint)), *options(hint)]
    if value is None:
        return type(None) in kinds
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, str):
        return str in kinds
    if isinstance(value, list):
        return tuple in kinds
    if isinstance(value, dict):
        return dict in kinds or any(
            isinstance(kind, type)
            and (dataclasses.is_dataclass(kind) or OpenUnion in kind.__bases__)
            for kind in kinds
        )
    if isinstance(value, float):
        return float in kinds and math.isfinite(value) and (value >= 0 or signed)
    whole = abs(value) < 2**63 and {int, float} & {*kinds}
    return bool(whole) and (value >= 0 or signed)


def test_all_config_classes_are_found():
    names = {"LowRankClasses", "Adam", "Training", "Dense", "TransformerConfig", "Zipf"}
    assert names < CLASSES.keys()
    assert len(CLASSES) > 40


@pytest.mark.parametrize("name", CLASSES)
def test_wrong_values_are_refused_in_one_line(name):
    kind, hints = CLASSES[name], typing.get_type_hints(CLASSES[name])
    required = REQUIRED.get(name, {})
    from_json(kind, required)
    for field in dataclasses.fields(kind):
        signed = (name, field.name) in SIGNED
        for what, value in VALUES.items():
            try:
                made = from_json(kind, {**required, field.name: value})
            except ValueError as error:
                text = str(error)
            else:
                fine = may_be(value, hints[field.name], signed)
                assert fine, f"{name}.{field.name} takes {what}: {made}"
                continue
            assert "\n" not in text, (field.name, what)
            assert len(text) < 1000
