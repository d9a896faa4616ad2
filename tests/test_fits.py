"""Parts that do not fit each other: one line says so before anything runs."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import pytest

import icl
from icl import measures, TaskSet, Training
from icl.data import LowRankClasses
from icl.measures import _text
from icl.models import TransformerConfig
from icl.models.attention import AbstractAttention
from icl.presets.gradient_descent import lsa
from icl.presets.induction import induction
from icl.protocols import AttentionConfig, Input, Interface, ModelConfig, TaskConfig
from icl.tasks.regression import LinearRegression


@dataclasses.dataclass(frozen=True)
class WithoutLoss(LinearRegression):
    def metrics(self, prediction, example):
        return {"error": prediction - example.y[-1]}


@dataclasses.dataclass(frozen=True)
class LossByPosition(LinearRegression):
    def metrics(self, prediction, example):
        return {"loss": (prediction - example.y) ** 2}


@dataclasses.dataclass(frozen=True)
class OtherInterface(LinearRegression):
    @property
    def interface(self):
        x, y = Input("x", (11, 9), "float32"), Input("y", (11,), "float32")
        return Interface((x, y), 1)


@dataclasses.dataclass(frozen=True)
class OtherSummaries(TaskConfig):
    def build(self, data):
        return LinearRegression()


class Point(eqx.Module):
    """An example whose arrays have other names."""

    point: jnp.ndarray
    value: jnp.ndarray


@dataclasses.dataclass(frozen=True)
class Points(LinearRegression):
    def sample(self, *, key, seen=0):
        drawn = super().sample(key=key, seen=seen)
        return Point(drawn.x, drawn.y)

    def inputs(self, example):
        return example.point, example.value


class Sum(eqx.Module):
    weight: jnp.ndarray

    def __call__(self, x, y, *, tap):
        return self.weight * x.sum()


@dataclasses.dataclass(frozen=True)
class SumConfig(ModelConfig):
    def build(self, interface, *, key):
        return Sum(jnp.zeros(()))


@dataclasses.dataclass(frozen=True)
class NamelessAttention(AttentionConfig):
    def build(self, num_heads, d_head, *, scale, key):
        return Nameless()


class Nameless(AbstractAttention):
    before: ClassVar = "kernel"
    rows: ClassVar = "signed"
    bilinear: ClassVar = True

    def __call__(self, q, k, v, seen, *, tap):
        return v


def exemplars(**fields):
    few = induction(LowRankClasses(num_classes=60, num_exemplars=1, dim=6))
    return dataclasses.replace(few, **fields)


def regression(**fields):
    return dataclasses.replace(lsa(), **{"evaluations": {}, **fields})


UNFIT = {
    "no loss": (
        lambda: regression(task=WithoutLoss()),
        r"the task: metrics must have a number 'loss', got error\[\]",
    ),
    "many losses": (
        lambda: regression(task=LossByPosition()),
        r"must have a number 'loss', got loss\[11\]",
    ),
    "summaries": (
        lambda: regression(task=OtherSummaries()),
        "LinearRegression has summaries of its own: .* in the config, OtherSummaries",
    ),
    "interface": (
        lambda: regression(task=OtherInterface()),
        r"has floats \[11, 9\], floats \[11\], but its inputs are floats \[11, 10\]",
    ),
    "model": (
        lambda: exemplars(model=SumConfig()),
        "the task: ExemplarLabelTask cannot score Sum: AttributeError: .*query_logits",
    ),
    "attention": (
        lambda: exemplars(model=TransformerConfig(attention=NamelessAttention())),
        "model: TransformerConfig: TypeError: Can't instantiate abstract class .*name",
    ),
    "set": (
        lambda: regression(evaluations={"x": TaskSet(8, LinearRegression(dim=5))}),
        r"set 'x' is \(x float32\[11, 5\].* cannot read it; give its task the same",
    ),
    "examples of a set": (
        lambda: regression(evaluations={"x": TaskSet(8, Points())}),
        "'x': LinearRegression cannot score LinearSelfAttention: ",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit(name):
    make, message = UNFIT[name]
    with pytest.raises(ValueError, match=message):
        make().build()


@pytest.mark.parametrize("seam", ["from_", "until"])
def test_a_graft_of_a_model_that_takes_other_examples(tmp_path, seam):
    folder = tmp_path / "other"
    short = regression(task=LinearRegression(dim=4), training=Training(64, 32))
    icl.run_experiment(short, folder)
    graft = f"Graft({str(folder)!r}, {seam}=0)"
    with pytest.raises(ValueError, match=r"Graft\(.*its model cannot take the task"):
        regression(edits=(graft,)).build()


def test_a_measure_and_a_metric_of_one_name(monkeypatch):
    make = lambda: measures.OfModel(lambda *_: jnp.asarray(8.0))
    monkeypatch.setitem(_text._MEASURES, "loss", make)
    task = exemplars().build().task
    with pytest.raises(
        ValueError, match="a metric .* and a measure are both called loss"
    ):
        measures.parse("loss", task)
