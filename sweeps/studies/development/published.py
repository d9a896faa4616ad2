"""What the papers on the learning coefficient over training published."""

from ...figures import Published


PAPER = "Hoogland et al. 2024, stages, 2402.02364"
STORY = "The runs are not drawn yet; their claims are written."

PUBLISHED = (
    Published(
        "? (regression)",
        "loss and learning coefficient of regression in context",
        "development/regression",
    ),
    Published(
        "? (language)",
        "stages of a small language model",
        absent="text of the Pile; `icl.replay` takes such a model's training steps",
    ),
    Published("ours", "the induction head's phase change", "development/induction"),
    Published("ours", "two strategies in turn", "development/strategies"),
)
"""Figures of Hoogland et al. 2024, "Loss landscape degeneracy and stagewise
development in transformers" (arXiv 2402.02364), known to us from public pages."""
