"""Transformers learn in-context by gradient descent: von Oswald et al. 2023 (ICML;
arXiv 2212.07677)."""

from ..experiments import Experiment
from ..models.linear_attention import LinearSelfAttentionConfig
from ..protocols import TaskSet
from ..tasks.regression import LinearRegression, UniformInputs
from ..training import Training
from ..training.optimizers import Adam, Cosine
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
    total = 512_000
    return Experiment(
        task=LinearRegression(),
        model=LinearSelfAttentionConfig(),
        optimizer=Adam(Cosine(2e-3, float(total))),
        training=Training(
            num_sequences=total,
            batch_size=512,
            evaluate_at=Every(total // 50),
            checkpoint_at=Every(total // 50),
        ),
        evaluations={
            "train": TaskSet(2000),
            "wide": TaskSet(
                2000, LinearRegression(input_distribution=UniformInputs(1.0))
            ),
        },
    )
