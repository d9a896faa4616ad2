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
    "ratio hold, and at `small` most about the kernel and the heads that carry "
    "the label. Models with frozen attention or noisy labels learn here where "
    "they should fail, and in two of five seeds the read-out does not grow from "
    "layer to layer; `small` is not the published size."
)

PUBLISHED = (
    Published(
        "? (tasks A, B)",
        "accuracy, and correlation with the log-likelihood ratio",
        "likelihood-ratio/bayes",
    ),
    Published("? (A, wider shift)", "out of distribution", "likelihood-ratio/bayes"),
    Published("? (ablations)", "what is needed to learn", "likelihood-ratio/ablations"),
    Published("? (logit lens)", "the read-out by layer", "likelihood-ratio/mechanism"),
    Published("? (kernel)", "kernel regression", "likelihood-ratio/mechanism"),
    Published("? (OV)", "heads and labels", "likelihood-ratio/mechanism"),
    Published("ours", "when plateaus end", "likelihood-ratio/escape"),
)
