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
    "ratio hold. The read-out comes to agree with the ratio from block to block, "
    "as published (correlation .33 and .85; published .26 and .87). The published "
    "kernel regression fits the logit as badly (.33; .31), but so do our better "
    "kernels (.54), against our claim. Heads of layer 0 write labels along the "
    "read-out (best cosine .73; .70), those of layer 1 less than published (.52; "
    ".83). Exchanged labels act through heads of layer 0, not of the last layer "
    "as in our smaller models. What the model needs is as published (one run "
    "each): positions do not matter, and with frozen queries and keys, with "
    "frozen attention, with labels left out, shuffled or in tokens of their own, "
    "or with a fifth of them wrong, it stays at chance (a fifth: .500; published "
    ".533)."
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
