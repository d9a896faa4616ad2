"""What arXiv 2603.10573 and its public repository report, and where we show it.

We know the paper from its abstract and its repository, so "?" stands for a number that
we could not find out.

The public code trains a bidirectional encoder to tell from samples which of two
distributions they are from. It claims that the logit approximates the log-likelihood
ratio, and looks for the mechanism with a logit lens, kernel regression, and the heads'
OV circuits.
"""

from ...figures import Published


PAPER = "Implicit likelihood-ratio tests, 2603.10573"
STORY = (
    "At the published size, all claims about accuracy and the log-likelihood "
    "ratio hold. What the model needs, and how it does it, was drawn at `small` "
    "only, which is not the published size, and is to be drawn anew."
)

PUBLISHED = (
    Published(
        "? (task A)",
        "accuracy, and correlation with the log-likelihood ratio",
        "likelihood-ratio/bayes",
        ("A: *",),
    ),
    Published("? (task B)", "the same", "likelihood-ratio/bayes", ("B: *",)),
    Published(
        "? (A, wider shift)",
        "out of distribution",
        "likelihood-ratio/bayes",
        ("A wide: *",),
    ),
    Published("? (ablations)", "what is needed to learn", "likelihood-ratio/ablations"),
    Published("? (logit lens)", "the read-out by layer", "likelihood-ratio/lens"),
    Published("? (kernel)", "kernel regression", "likelihood-ratio/kernel"),
    Published("? (OV)", "heads and labels", "likelihood-ratio/ov"),
    Published("ours", "when plateaus end", "likelihood-ratio/escape"),
    Published("ours", "more steps for what is at chance", "likelihood-ratio/longer"),
    Published("ours", "which heads carry the label", "likelihood-ratio/heads"),
)
