"""What figures of the coopetition paper share."""

from typing import Any

from ..runs import SEEDS


PAPER = "Singh et al. 2025, arXiv 2503.05631"
METRIC = "in_context_accuracy"
# The classes were searched with seed 5, so claims are judged on other seeds.
MAIN: dict[str, Any] = {
    "study": "coopetition",
    "runs": {"main": "main-seed-{seed} | main"},
    "fresh": SEEDS,
}
