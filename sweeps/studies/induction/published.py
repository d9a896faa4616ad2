"""What the induction-head paper published: Singh et al. 2024, arXiv 2404.07129.

The paper trains a transformer of two layers on exemplar-label sequences. It claims that
several induction heads emerge, which add up and are redundant; that they come out of a
phase change; and that this change waits for the last of three parts that only work
together: previous-token heads, matching, and copying. It shows this by clamping parts
of the circuit throughout training. More classes delay matching, and more labels delay
copying.
"""

from ...figures import Published


PAPER = "Singh et al. 2024, induction heads"
STORY = (
    "We see the paper's story: several induction heads that are redundant, one "
    "phase change, and clamped parts of the circuit that delay or hasten it, "
    "alike in 10 seeds; more classes and more labels delay it as they should. "
    "Copying does not come after matching here, new classes stay hard, and "
    "numbers differ by up to a factor of 1.6 (final losses by more); we think "
    "that this is due to our synthetic classes, which stand in for features of "
    "Omniglot."
)

PUBLISHED = (
    Published("3a", "three losses over training", "induction/3a"),
    Published("3b", "induction strength of each head", "induction/3b"),
    Published(
        "4a",
        "heads ablated and alone",
        "induction/4a",
        ("all heads", "without *", "* alone"),
    ),
    Published("4b", "one head throughout training", "induction/4b"),
    Published("5a", "a toy with a phase change", "induction/5a"),
    Published("5b", "parts of the circuit clamped", "induction/5b"),
    Published("6", "more classes, more labels", "induction/6"),
    Published("A7", "layer 0 of a trained run", "induction/A7"),
    Published("A8", "other previous-token heads clamped", "induction/A8"),
    Published(
        "A9",
        "the toy's progress measures",
        notebook="03_phase_changes",
        reason="its times are judged in figure 5a",
    ),
    Published("A10", "progress that the loss does not show", "induction/A10"),
    Published(
        "A11",
        "pairs of heads, and composition",
        "induction/table-1",
        ("best pair *",),
    ),
    Published("A12", "direct paths to the output", "induction/A12"),
    Published(
        "A13",
        "heads ablated and alone: losses",
        notebook="02_induction",
        reason="the accuracies are judged in figure 4a",
    ),
    Published(
        "A14",
        "heads added in order of strength",
        "induction/4a",
        ("loss with the strongest*",),
    ),
    Published("A15", "a weaker clamp of the match", "induction/A15"),
    Published(
        "A16",
        "what heads copy, by label",
        notebook="02_induction",
        reason="its numbers are in table 3",
    ),
    Published("A17", "two heads throughout training", "induction/A17"),
    Published("A18", "strength and accuracy, five seeds", "induction/A18"),
    Published(
        "table 1",
        "previous-token heads by path",
        "induction/table-1",
        ("previous-token heads, *", "the others, *"),
    ),
    Published(
        "table 2",
        "share of the best head's errors that others get right",
        notebook="02_induction",
        reason="the heads are not the paper's",
    ),
    Published("table 3", "accuracy with a perfect match", "induction/A16"),
)
