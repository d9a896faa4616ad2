"""What the transience paper published: Singh et al. 2023, arXiv 2311.08360.

We know its figures from public pages. "?" stands for a figure number that we could not
find out, and this table may lack some figures.

The paper claims that in-context learning often comes and then goes away again, while
the loss keeps falling; that this holds across sizes of models and kinds of data; and
that regularisation by L2 can make it stay.
"""

from ...figures import Published


PAPER = "Singh et al. 2023, transience"
STORY = (
    "With classes as the public code makes them (characters, rotated and mirrored), "
    "answers to flipped labels come above one half in four of five seeds and then "
    "go away in all four: they end at .07 to .28 after 3.2 million sequences, and "
    "still fall. Our rule asks for a peak above .6 and an end below .2 in one seed, "
    "which two have. What the model can do in context does not go away (.75 to "
    ".85). Features are synthetic and fixed; the paper learns its features along "
    "with the model, in code that is not public."
)

_IMAGES = "features are learned along with the model, in code that is not public"

PUBLISHED = (
    Published("1", "learning in context comes and goes", "transience/preference"),
    Published("2", "example sequences; the model", absent="diagrams"),
    Published("? (4.1)", "depth and width", absent=_IMAGES),
    Published("? (4.2)", "more classes, more variation within", absent=_IMAGES),
    Published(
        "? (4.3)",
        "clusters of LLaMA's embeddings",
        absent="the embeddings were not available; only at scale `paper`",
    ),
    Published("? (4.4)", "classes of unequal frequency (Zipf)", absent=_IMAGES),
    Published("? (5)", "regularisation", absent=_IMAGES),
    Published("16", "regularisation by type of layer", absent=_IMAGES),
    Published("? (6)", "competition of circuits", absent=_IMAGES),
    Published(
        "? (appendix)",
        "fixed features of Omniglot, twelve layers",
        absent="only at scale `paper`, which was not run",
    ),
    Published("ours", "controls: how exemplars vary", "transience/spread"),
)
