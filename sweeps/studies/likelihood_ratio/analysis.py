"""Measurements on the runs of this paper."""

from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float

import icl
from icl.batches import batch
from icl.measures import EachSequence, task_metric
from icl.protocols import TaskConfig
from icl.summaries import Correlation, RankCorrelation


FRESH = 20_000
"""How many new sequences the final model is judged on."""
_KEY = 2026
_ROWS = ("logit", "log_odds", "log_likelihood_ratio", "label")


def share_of_bayes(folder: Path, name: str) -> float:
    """Accuracy above chance at the end, divided by that of the exact Bayes predictor.

    Both are of the same sequences, those of an evaluation set. The Bayes predictor sees
    the context before anything was done to it.
    """
    rows = icl.Run(folder).log.evaluations[name]
    label = rows["label"][-1] > 0.5
    bayes = np.mean((rows["log_odds"][-1] > 0) == label)
    return float((rows["accuracy"][-1].mean() - 0.5) / (bayes - 0.5))


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
    drawn = batch(task or trained.task, FRESH, key=jax.random.key(_KEY))
    measures = {k: task_metric(trained.task, k, over=EachSequence()) for k in _ROWS}
    found = icl.replay(trained, measures, data=drawn, checkpoints=[-1])
    return {k: np.asarray(found[k][0], np.float64) for k in _ROWS}
