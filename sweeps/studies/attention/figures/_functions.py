"""Other functions than linear ones: Garg et al. 2022, with the learners they name."""

from collections.abc import Callable

import numpy as np

from icl import plots
from icl.baselines.functions import GreedyTree, Lasso, TwoLayerNetwork
from icl.replaying.by_context import Predictor

from ....figures import Alike, Figure, Measured, rows_of, Runs, Times
from ..analysis import by_context, mean_of_seeds, prompt_task
from ._common import banded, BASELINE_LOOKS, ERROR, ERROR_LABEL


# Made when the figure is drawn: two of them need scikit-learn.
_LEARNERS: dict[str, tuple[str, Callable[[], Predictor]]] = {
    "sparse": ("Lasso", lambda: Lasso(0.01)),
    "tree": ("greedy tree", GreedyTree),
    "network": ("trained network", lambda: TwoLayerNetwork(hidden=10)),
}


def _measured(runs: Runs) -> Measured:
    values: dict[str, np.ndarray] = {}
    panels: dict[str, dict[str, plots.Line]] = {}
    for name, folders in runs.folders.items():
        task = prompt_task(folders[0])
        learner, made = _LEARNERS[name]
        known = by_context(made(), task)
        ours = [by_context(folder, task) for folder in folders]
        pairs = np.arange(task.points)
        errors = np.stack([each.mean[0] for each in ours])
        values[f"{name}: after the most pairs"] = errors[:, -1]
        values[f"{name}: {learner}"] = np.full(len(errors), known.mean[0, -1])
        panels[f"{name}: {learner}"] = {
            "named learner": plots.Line(pairs, known.mean[0], **BASELINE_LOOKS[0]),
            "transformer": banded(pairs, mean_of_seeds(ours)),
        }
    figure = plots.lines(panels, x="pairs before the query", y=ERROR_LABEL)
    return Measured(values, figure)


FIGURES = (
    Figure(
        "attention/functions",
        "sparse functions, trees and networks, beside a learner of each",
        "Garg et al. 2022 (arXiv 2208.01066), with 20 components",
        cost="30 min",
        about="1280 prompts, after the most pairs; 5 components",
        study="attention",
        runs={name: f"{name}-longer-seed-{{seed}}" for name in _LEARNERS},
        measure=_measured,
        rows=rows_of(
            ERROR,
            [
                f"{name}: {what}"
                for name, (learner, _) in _LEARNERS.items()
                for what in ("after the most pairs", learner)
            ],
        ),
        claims=(
            # As published: about as good as Lasso and as a network of the same form,
            # and much better than greedy trees.
            Alike(("sparse: after the most pairs", "sparse: Lasso"), 2.0),
            Times("tree: greedy tree", "tree: after the most pairs", 2.0),
            Alike(("network: after the most pairs", "network: trained network"), 1.5),
        ),
    ),
)
