import dataclasses
import json
from typing import get_args

import jaxtyping
import pytest

from icl.config import from_json, to_json, with_fields
from icl.data import (
    GaussianClasses,
    HDF5Classes,
    LowRankClasses,
    OneHotClasses,
    Source,
    TransformedClasses,
)
from icl.experiments import Experiment
from icl.models import (
    Learned,
    NoPositions,
    Positions,
    Rope,
    Sinusoidal,
    TransformerConfig,
)
from icl.presets import presets
from icl.tasks.exemplar_label import (
    ClassLabels,
    Context,
    EvaluationSet,
    ExemplarLabel,
    FlippedLabels,
    Free,
    Labels,
    Matched,
    Mixture,
    QueryLabelOnContext,
    Relabel,
    Split,
    UniformClasses,
    Zipf,
)
from icl.tasks.exemplar_label._distribution import Distribution
from icl.tasks.exemplar_label._exemplars import ExemplarChoice
from icl.training import Training
from icl.training.optimizers import (
    Adam,
    AdamW,
    Constant,
    Cosine,
    LearningRate,
    OneCycle,
    OneCycleMomentum,
    Optimizer,
    SGD,
    WarmupDecay,
)
from icl.training.schedules import Dense, Every, Exactly, LogSpaced, Schedule


MIXTURE = Mixture((Context(4, 2, distractor=True), Context(4, 0)), (0.25, 0.75))

# For each union field, one value of each member.
UNIONS = {
    "data": (
        Source,
        [
            LowRankClasses(dim=7, spread=0.1),
            TransformedClasses(invariant=5),
            GaussianClasses(num_classes=3),
            OneHotClasses(9),
            HDF5Classes("a.h5", "features"),
        ],
    ),
    "optimizer": (
        Optimizer,
        [
            Adam(eps=1e-7),
            AdamW(clip_norm=1.0),
            AdamW(b1=OneCycleMomentum(1e5, 1e4, high=0.9)),
            SGD(momentum=0.9),
        ],
    ),
    "optimizer.learning_rate": (
        LearningRate,
        [
            Constant(0.3),
            WarmupDecay(0.1, 1e4),
            Cosine(0.1, 1e5, 1e3, 1e-3),
            OneCycle(0.1, 1e5, 1e4),
        ],
    ),
    "training.evaluate_at": (
        Schedule,
        [Every(7), Exactly((1, 5)), LogSpaced(9), Dense(5, 9, 1, 3)],
    ),
    "model.positions": (
        Positions,
        [Rope(30.0), Sinusoidal(), Learned(9), NoPositions()],
    ),
    "task.context": (Context | Mixture, [Context(8, unique_rest=True), MIXTURE]),
    "task.distribution": (Distribution, [UniformClasses(), Zipf(1.5)]),
    "task.exemplar_choice": (ExemplarChoice, [Free(), Matched()]),
    "task.labels": (
        Labels,
        [
            ClassLabels(),
            Relabel(7, Split(3, 2)),
            FlippedLabels(),
            QueryLabelOnContext(),
        ],
    ),
    "evaluations.held.context": (Context | Mixture | None, [MIXTURE, Context(3), None]),
    "evaluations.held.labels": (
        Labels | None,
        [
            Relabel(5),
            ClassLabels(),
            FlippedLabels(),
            QueryLabelOnContext(),
            None,
        ],
    ),
}

BASE = Experiment(
    task=ExemplarLabel(class_split=Split(50, 2), exemplar_split=Split(1, seed=None)),
    model=TransformerConfig(num_heads=(2, 8), mlp_ratio=4.0),
    training=Training(1000, 10, 5),
    evaluations={"held": EvaluationSet(relabelling="val"), "new": EvaluationSet(3)},
    edits=("Zero('blocks.1.attn.z', head=3)",),
)


def with_field(config, path, value):
    """Returns the config with another value at a path of fields and keys."""
    name, *rest = path.split(".", 1)
    if rest:
        inner = config[name] if isinstance(config, dict) else getattr(config, name)
        value = with_field(inner, *rest, value)
    if isinstance(config, dict):
        return {**config, name: value}
    return dataclasses.replace(config, **{name: value})


def through_text(config):
    return from_json(Experiment, json.loads(json.dumps(to_json(config))))


@pytest.mark.parametrize("name", presets())
def test_presets_come_back_the_same(name):
    preset = presets()[name]()
    assert through_text(preset) == preset


@pytest.mark.parametrize("path", UNIONS)
def test_each_member_of_each_union_comes_back_the_same(path):
    union, values = UNIONS[path]
    kinds = get_args(union)
    assert {type(value) for value in values} == set(kinds)
    for value in values:
        config = with_field(BASE, path, value)
        back = through_text(config)
        assert back == config
        assert hash(back.task) == hash(config.task)
        text = json.dumps(to_json(config))
        assert value is None or f'"type": "{type(value).__name__}"' in text


def test_what_a_config_is_as_json():
    plan = Training(100, 10, checkpoint_at=Exactly((5, 10)))
    assert to_json(plan) == {
        "num_sequences": 100,
        "batch_size": 10,
        "microbatch_size": None,
        "evaluate_at": {"type": "Every", "sequences": 10_000},
        "checkpoint_at": {"type": "Exactly", "sequences": [5, 10]},
    }
    assert to_json(TransformerConfig(num_heads=(2, 4)))["num_heads"] == [2, 4]


def test_old_names_of_types_can_be_read():
    at = {"type": "At", "sequences": [5]}
    read = from_json(Training, {"num_sequences": 20, "checkpoint_at": at})
    assert read.checkpoint_at == Exactly((5,))
    splits = {"class_split": {"train": 3}, "exemplar_split": {"train": 1}}
    read = from_json(ExemplarLabel, splits | {"distribution": {"type": "Uniform"}})
    assert read.distribution == UniformClasses()


def test_missing_fields_take_their_defaults_and_whole_numbers_are_numbers_too():
    data = {"task": {"class_split": {"train": 3}, "exemplar_split": {"train": 1}}}
    assert from_json(Experiment, data) == Experiment(
        task=ExemplarLabel(class_split=Split(3), exemplar_split=Split(1))
    )
    rate = from_json(Adam, {"learning_rate": {"type": "Constant", "rate": 1}})
    assert rate == Adam(Constant(1.0))
    assert type(rate.learning_rate.rate) is float


MISTAKES = {
    # An unknown name, and the nearest known one.
    "training.batch_sizee": (3, ["training: Training", "mean 'batch_size'"]),
    "evaluations.held.siz": (3, ["evaluations.held", "'siz'", "mean 'size'"]),
    "optimizer.type": ("Adamm", ["optimizer: type", "Adam, AdamW, SGD", "mean 'Adam'"]),
    "task.context.type": ("Bag", ["task.context: type", "Context, Mixture", "'Bag'"]),
    "task.context": ({"length": 2}, ["task.context: type", "Context, Mixture", "miss"]),
    "task.classes": ("trian", ["task.classes", "'val'", "'trian'", "mean 'train'"]),
    "evaluations.held.relabelling": ("all", ["held.relabelling", "null", "'all'"]),
    # Values of the wrong type.
    "training.batch_size": ("32", ["training.batch_size: wanted int, got '32'"]),
    "init_seed": (True, ["init_seed: wanted int, got True"]),
    "optimizer.b1": ("high", ["optimizer.b1: wanted float or OneCycleMomentum"]),
    "training.microbatch_size": ("5", ["wanted int or null, got '5'"]),
    "task.class_split": (50, ["task.class_split: wanted an object of Split, got 50"]),
    "optimizer": ("Adam", ["optimizer: wanted an object of Adam or AdamW or SGD, got"]),
    "evaluations.held": (None, ["evaluations.held: wanted an object", "EvaluationSet"]),
    "edits": ("Zero('x')", ["edits: wanted a list of str, got \"Zero('x')\""]),
    "model.num_heads": ([2, 2.0], ["model.num_heads.1: wanted int, got 2.0"]),
    "model.mlp_ratio": ([4], ["model.mlp_ratio: wanted float or null, got [4]"]),
    # Missing fields.
    "task": ({}, ["task: ExemplarLabel lacks the field 'class_split'", "exemplar_spl"]),
    # Values that the config itself refuses.
    "training.": ({"num_sequences": 0}, ["training: num_sequences must be a positive"]),
    "model.d_model": (12, ["model: num_heads must divide d_model=12, got 8"]),
    "task.labels": ({"type": "Relabel", "num_labels": 1}, ["task.labels: num_labels"]),
}


def test_a_field_is_set_once():
    with pytest.raises(ValueError, match="'init_seed' is set twice; set it once"):
        with_fields(BASE, ["init_seed=1", "init_seed=2"])


@pytest.mark.parametrize("path", MISTAKES)
def test_mistakes_are_told_in_one_line(path, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    value, words = MISTAKES[path]
    data = with_field(to_json(BASE), path.rstrip("."), value)
    with pytest.raises(ValueError, match="^config: ") as caught:
        from_json(Experiment, data)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_all_that_is_wrong_with_an_object_is_told_at_once():
    data = to_json(BASE)
    data |= {"seed": 1, "modell": data.pop("model")}
    del data["task"]
    with pytest.raises(ValueError, match="no field 'seed'") as caught:
        from_json(Experiment, data)
    message = str(caught.value)
    assert "no field 'modell'; did you mean 'model'?" in message
    assert "lacks the field 'task'" in message
