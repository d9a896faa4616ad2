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

import functools

from ...figures import Published


PAPER = "Kinds of attention (limits_of_icl), and Garg et al. 2022, 2208.01066"
STORY = (
    "We see that all kinds learn linear functions in context with the paper's "
    "order of errors, and that some shifts hurt them as they should. We do not "
    "see the published errors (ours are up to 47 times as large), because our "
    "models have 3 layers of 64 and 5 components, and the published ones 12 "
    "layers of 256 and 20."
)

_WHERE = "attention/shifts"
_shown = functools.partial(
    Published,
    notebook="09_attention_mechanisms",
    absent="shown, but not judged: it has no number that we know, and no claim",
)
_UNCHANGED = "; published, the shift changed nothing"
PUBLISHED = (
    Published("? (Garg, curves)", "error by number of pairs", "attention/curves"),
    Published("? (Garg, shifts)", "shifts of prompts and queries", _WHERE),
    Published(
        "? (Garg, other functions)",
        "sparse functions, trees and networks",
        absent="the study has linear functions only; presets train the others",
    ),
    Published("notebook (standard)", "error at the last point", "attention/curves"),
    _shown("notebook (loss)", "loss with the curriculum"),
    Published("ours", "when each kind begins to learn", "attention/loss"),
    Published("notebook (query scale)", "longer queries", _WHERE),
    Published(
        "notebook (constrained)", "points in one orthant; this claim holds", _WHERE
    ),
    Published("notebook (subspace, skew)", "points of another covariance", _WHERE),
    Published("notebook (noise, bias)", "noisy and affine functions", _WHERE),
    _shown("notebook (flipped)", f"opposite signs{_UNCHANGED}"),
    _shown("notebook (orthogonal)", f"orthogonal queries{_UNCHANGED}"),
    _shown("notebook (sparsity, uniform)", "other weights"),
    _shown("notebook (overlap)", "queries from the context"),
)
