"""What the papers on the learning coefficient over training published."""

from ...figures import Published


PAPER = "Hoogland et al. 2024, stages, 2402.02364"
STORY = (
    "We see the paper's first stages in five seeds: the learning coefficient "
    "rises by about 65 when the model begins to use the context, and later falls "
    "by 18 while the loss goes on falling. Three directions have 87 % of the "
    "movement of the outputs; our rule asks for 90. The runs have 1/167 of the "
    "paper's prompts, so its last stages are not judged. Early estimates are below "
    "zero, because a loss that still falls steeply is not at a minimum. An induction "
    "head's phase change doubles the coefficient, of all weights and of layer 0, "
    "and some of this goes away again. While a model turns from the context to its "
    "weights, the coefficient falls by a fifth; but it also does in the one seed "
    "that never used the context, so it does not tell which strategy went away."
)

PUBLISHED = (
    Published(
        "? (regression)",
        "loss and learning coefficient of regression in context",
        "development/regression",
    ),
    Published(
        "? (language)",
        "stages of a small language model",
        reason="text of the Pile; `icl.replay` takes such a model's training steps",
    ),
    Published("ours", "the induction head's phase change", "development/induction"),
    Published("ours", "two strategies in turn", "development/strategies"),
)
"""Figures of Hoogland et al. 2024, "Loss landscape degeneracy and stagewise
development in transformers" (arXiv 2402.02364), known to us from public pages."""
