"""What the figures of the induction-head paper share."""

from ..clamps.runs import SEEDS


TO_HALF = "sequences seen until the loss on training sequences is half of ln 2"
# The paper calls held-out classes "test (exemplars)". In its code this is the set
# `fsl_test_class`: exemplars of classes that are not trained on.
SETS = ("train", "heldout_labels", "heldout_classes")
# Claims are judged on seeds that had not been trained when the claims were written
# down. Of the replicas, seed 5 had been.
CLAMPS = {"study": "clamps", "fresh": SEEDS}
REPLICAS = {"study": "replicas", "fresh": (6, 7, 8, 9)}
