"""What figures of the induction-head paper on losses share."""

import numpy as np

from icl import plots

from ....analysis import HALF, MetricCurves
from ..clamps.runs import SEEDS


TO_HALF = "sequences seen until the loss on training sequences is half of ln 2"
# The paper calls held-out classes "test (exemplars)": of its code's sets that is
# `fsl_test_class`, exemplars of classes that are not trained on.
SETS = ("train", "heldout_labels", "heldout_classes")
# Claims are judged on seeds that were not trained when they were written down: of the
# replicas, seed 5 had been.
CLAMPS = {"study": "clamps", "fresh": SEEDS}
REPLICAS = {"study": "replicas", "fresh": (6, 7, 8, 9)}


def draw_losses(found: MetricCurves, by: str) -> plots.DrawnFigure:
    """The loss of each run over training, thin, under the means over seeds."""
    return plots.traces(
        found.sequences,
        found.values,
        groups=np.array(found.labels),
        label="loss (nats)",
        by=by,
        trace="seed",
        limits=(0, None),
        threshold=HALF,
    )
