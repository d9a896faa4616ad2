"""Measurements on the runs of this paper."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float

import icl
from icl.batches import batch
from icl.measures import EachSequence, task_metric
from icl.protocols import TaskConfig
from icl.summaries import Correlation, RankCorrelation
from icl.tasks.discrimination import (
    NoisyLabels,
    ShiftedMean,
    ShuffledLabels,
    Unchanged,
)


FRESH = 20_000
"""How many new sequences the final model is judged on; each seed has its own."""
_ROWS = ("logit", "log_odds", "log_likelihood_ratio", "label")


def accuracies(folder: Path) -> dict[str, float]:
    """The final model's accuracy on new sequences, and its share of Bayes.

    The share is the accuracy above chance, divided by that of the exact Bayes predictor
    on the same sequences. A model that was trained on changed contexts is judged on
    unchanged ones if only labels were changed, as in the paper.
    """
    task = icl.load(folder).experiment.task
    labels = NoisyLabels | ShuffledLabels
    if isinstance(task, ShiftedMean) and isinstance(task.context_change, labels):
        task = dataclasses.replace(task, context_change=Unchanged())
    rows = final_rows(folder, task)
    label = rows["label"] > 0.5
    accuracy, bayes = (
        float(np.mean((rows[name] > 0) == label)) for name in ("logit", "log_odds")
    )
    return {"accuracy": accuracy, "share": (accuracy - 0.5) / (bayes - 0.5)}


def wide_shift(folder: Path) -> TaskConfig:
    """The task of a run's evaluation set `wide_shift`."""
    experiment = icl.load(folder).experiment
    return experiment.evaluations["wide_shift"].of(experiment.task)


def against_bayes(folder: Path, task: TaskConfig | None = None) -> dict[str, float]:
    """How the final model does on new sequences, beside the exact Bayes predictor.

    **Arguments:** `task`: The task that draws them; `None` is the training task.

    **Returns:** `accuracy`, `Bayes accuracy`, `regret` in nats, `slope` (of the Bayes
    log-odds on the logit, by least squares; 1 if the logit is calibrated), and `r`, `ρ`
    with the Bayes log-odds and with the log-likelihood ratio of the true parameters.
    """
    rows = final_rows(folder, task)
    logit, odds, label = rows["logit"], rows["log_odds"], rows["label"] > 0.5
    losses = [np.logaddexp(0, np.where(label, -x, x)).mean() for x in (logit, odds)]
    found = {
        "accuracy": np.mean((logit > 0) == label),
        "Bayes accuracy": np.mean((odds > 0) == label),
        "regret": losses[0] - losses[1],
        "slope": np.polyfit(logit, odds, 1)[0],
    }
    for what, other in (("Bayes", "log_odds"), ("LLR", "log_likelihood_ratio")):
        found[f"r with {what}"] = Correlation("logit", other)(rows)
        found[f"ρ with {what}"] = RankCorrelation("logit", other)(rows)
    return {what: float(value) for what, value in found.items()}


def final_rows(
    folder: Path, task: TaskConfig | None = None
) -> dict[str, Float[np.ndarray, " sequence"]]:
    """The final model's logits on new sequences, and what they are compared with.

    **Arguments:** `task`: As for `against_bayes`.
    """
    trained = icl.load(folder)
    key = jax.random.fold_in(jax.random.key(trained.experiment.eval_seed), FRESH)
    drawn = batch(task or trained.task, FRESH, key=key)
    measures = {k: task_metric(trained.task, k, over=EachSequence()) for k in _ROWS}
    found = icl.replay(trained, measures, data=drawn, checkpoints=[-1])
    return {k: np.asarray(found[k][0], np.float64) for k in _ROWS}
