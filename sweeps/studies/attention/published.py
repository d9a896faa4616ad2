"""What limits_of_icl and Garg et al. (2022) report, and where we show it.

Garg et al. train a GPT-2 on points and values of a function that is new in each prompt.
They claim that it learns linear functions in context almost as well as least squares,
and that it stays near it when prompts are shifted in some ways.

limits_of_icl is the public repository `kenzhengjk/limits_of_icl`. It extends that code
to other kinds of attention, and asks which of them learn and which are robust. Its
results are the outputs saved in its notebook: a figure for each sweep, of one seed, at
the last point of a prompt. Its figures have no numbers. "?" stands for a number of a
figure of Garg et al. that we do not know.
"""

from ...figures import Published


PAPER = "Kinds of attention (limits_of_icl), and Garg et al. 2022, 2208.01066"
_UNCHANGED = "; published, the shift changed nothing"
STORY = (
    "We see that all kinds learn linear functions in context, and that a bias, "
    "points in one orthant and long points hurt them as they should. After ten "
    "times the steps (one seed, as published), kinds without a softmax predict as "
    "well as softmax or better; published, they are worse. With opposite signs they "
    "are worse here, too, and with points in one orthant ReLA and FAVOR+ are. "
    "Longer queries hurt softmax less than twofold, and skewed points hurt FAVOR+ "
    "and ReBased most, not softmax. The published shifts that changed nothing cost "
    "up to six times the error where they are real. Our models have 3 layers of 64 "
    "and 5 components, the published ones 12 layers of 256 and 20, so we compare "
    "orders and ratios, not errors. A narrow window costs softmax three times its "
    "error or more in all seeds, a wide one in one of three. The loss and the "
    "windows are of the shorter runs, of three seeds. Of other functions (one seed "
    "each), trees are learnt much better than a greedy tree and networks as well as "
    "a trained network, as published. Sparse functions are not learnt as well as by "
    "Lasso: .016 after ten pairs, where Lasso has .0005."
)

PUBLISHED = (
    Published("? (Garg, curves)", "error by number of pairs", "attention/curves"),
    Published("? (Garg)", "points of another length", "attention/point-scale"),
    Published("? (Garg)", "points in half a subspace", "attention/subspace"),
    Published(
        "? (Garg)",
        "a query from the context",
        "attention/sparsity",
        ("*: overlapping*", "*: standard"),
    ),
    Published(
        "? (Garg, other functions)",
        "sparse functions, trees and networks",
        "attention/functions",
    ),
    Published(
        "notebook (standard)",
        "error at the last point",
        "attention/curves",
        ("*: after 2d pairs",),
    ),
    Published("notebook (standard)", "windows", "attention/windows"),
    Published("notebook (loss)", "loss with the curriculum", "attention/loss"),
    Published("notebook (query scale)", "longer queries", "attention/query-scale"),
    Published(
        "notebook (constrained)", "points in one orthant", "attention/constrained"
    ),
    Published("notebook (subspace)", "points in a subspace", "attention/subspace"),
    Published("notebook (skew)", "unequal variances", "attention/skew"),
    Published("notebook (noise)", "noisy values", "attention/noise"),
    Published("notebook (bias)", "affine functions", "attention/bias"),
    Published("notebook (flipped)", f"opposite signs{_UNCHANGED}", "attention/flipped"),
    Published(
        "notebook (orthogonal)",
        f"orthogonal queries{_UNCHANGED}",
        "attention/orthogonal",
    ),
    Published("notebook (sparsity, uniform)", "other weights", "attention/sparsity"),
    Published(
        "notebook (overlap)",
        "queries from the context",
        "attention/sparsity",
        ("*: overlapping*", "*: standard"),
    ),
)
