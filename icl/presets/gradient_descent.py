"""Transformers learn in-context by gradient descent: von Oswald et al. 2023 (ICML;
arXiv 2212.07677), and a transformer with many layers on the same kind of task."""

import dataclasses

from ..experiments import Experiment
from ..models.linear_attention import LinearSelfAttentionConfig
from ..models.regression_transformer import RegressionTransformerConfig
from ..models.softmax_copy import SoftmaxCopyConfig
from ..protocols import ModelConfig, TaskSet
from ..tasks.regression import GaussianInputs, LinearRegression, UniformInputs
from ..training import Training
from ..training.optimizers import Adam, AdamW, Cosine
from ..training.schedules import Every
from ._preset import preset


@preset
def lsa() -> Experiment:
    """One layer of linear self-attention learns a step of gradient descent (figure 2).

    Linear regression on 10 pairs of 10 components, uniform in ±1/2, new in each
    sequence. In a minute the loss (half the squared error) comes within 2 % of the best
    single step of gradient descent: 0.206, `icl.baselines.gradient_descent.one_step`.
    The batch size is 512 and the rate falls to 0; the paper has 2048 and a constant
    rate.
    """
    return _published(LinearSelfAttentionConfig(), Adam(Cosine(2e-3, 512e3)), 1000)


@preset
def lsa_tied(layers: int = 2, steps: int = 3000) -> Experiment:
    """One layer of linear self-attention, applied several times: GD++ (figure 4).

    The task is that of `lsa`. Two applications come near 0.113, more than two steps of
    gradient descent: they also move the points.
    """
    optimizer = Adam(Cosine(1e-3, 512.0 * steps), b2=0.98, clip_norm=10.0)
    model = LinearSelfAttentionConfig(layers, tied=True)
    return _published(model, optimizer, steps)


@preset
def softmax_copy(steps: int = 4000) -> Experiment:
    """Points and values are separate tokens; a softmax layer brings them together.

    The task is that of `lsa`, the model has two layers (section 5). The loss stays near
    that of the zero predictor (0.417) for about 2000 steps, then falls to that of one
    step of gradient descent (0.206), and below it. The paper has a rate of .001 and
    shows 40,000 steps.
    """
    optimizer = Adam(Cosine(5e-3, 512.0 * steps), b2=0.98, clip_norm=10.0)
    return _published(SoftmaxCopyConfig(), optimizer, steps)


@preset
def regression_transformer(
    layers: int = 12, steps: int = 50_000, noise: float = 0.05, context: int = 20
) -> Experiment:
    """A transformer with MLPs on 20 pairs and 20 queries of 20 components.

    Gaussian points, width 128, batches of 64. For layer-by-layer comparisons with
    gradient descent. The values of the pairs have noise, those of the queries have not.
    """
    model = RegressionTransformerConfig(layers)
    task = LinearRegression(20, context, GaussianInputs(), noise=noise, queries=20)
    return _transformer(task, model, 1e-4, warmup=2000, steps=steps)


@preset
def regression_transformer_small(layers: int = 4, steps: int = 5000) -> Experiment:
    """A small transformer with MLPs on 10 pairs and 10 queries of 5 components.

    Gaussian points, noise of .05, width 64, batches of 64.
    """
    model = RegressionTransformerConfig(layers, d_model=64)
    task = LinearRegression(5, 10, GaussianInputs(), noise=0.05, queries=10)
    return _transformer(task, model, 1e-3, warmup=200, steps=steps)


def _published(model: ModelConfig, optimizer: Adam, steps: int) -> Experiment:
    """The published task; half the squared error of a zero predictor is 0.417."""
    return Experiment(
        task=LinearRegression(),
        model=model,
        optimizer=optimizer,
        training=_training(512, steps),
        evaluations={
            "train": TaskSet(2000),
            "wide": TaskSet(
                2000, LinearRegression(input_distribution=UniformInputs(1.0))
            ),
        },
    )


def _transformer(
    task: LinearRegression, model: ModelConfig, rate: float, *, warmup: int, steps: int
) -> Experiment:
    warmup = min(warmup, steps // 4)
    rates = Cosine(rate, 64.0 * steps, 64.0 * warmup)
    return Experiment(
        task=task,
        model=model,
        optimizer=AdamW(rates, clip_norm=1.0),
        training=_training(64, steps),
        evaluations={
            "train": TaskSet(1000),
            "wide": TaskSet(1000, dataclasses.replace(task, input_scale=2.0)),
        },
    )


def _training(batch_size: int, steps: int) -> Training:
    """With 50 evaluations and checkpoints."""
    total = batch_size * steps
    each = Every(max(total // 50, batch_size))
    return Training(total, batch_size, evaluate_at=each, checkpoint_at=each)
