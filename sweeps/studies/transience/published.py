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
    ".85). With as few classes as LLaMA's clusters (1,600 and 3,200), two layers "
    "answer flipped labels from their weights throughout. Weight decay does not "
    "make the preference stay here (one seed, AdamW; the paper adds a squared norm "
    "to the loss): with .3 it comes less (.58; without, .85) and goes away (.16); "
    "with 1 the loss ends at 7.7 of 9.5 nats, and it never comes. With 3 layers, or "
    "a width of 128 (one seed each), the model comes to use the context (.9), but "
    "never prefers it. If classes are as unequal as Zipf's law with exponent 1 "
    "makes them, it answers from its weights almost at once (flip .35 at the first "
    "evaluation and .005 at the end), and hardly uses the context (.64 at most). "
    "Features are synthetic and fixed; the paper learns its features along with the "
    "model, in code that is not public."
)

_NOT_RUN = (
    "not run: half an hour a run here, which sections 4.1 to 4.4 and 5 were given"
)

PUBLISHED = (
    Published("1", "learning in context comes and goes", "transience/preference"),
    Published("? (4.1)", "depth and width", "transience/sizes"),
    Published(
        "? (4.2)",
        "more classes, more exemplars of each",
        "coopetition/variants",
        ("* × *",),
    ),
    Published("? (4.3)", "clusters of LLaMA's embeddings", "transience/clusters"),
    Published("? (4.4)", "classes of unequal frequency (Zipf)", "transience/zipf"),
    Published("? (5)", "regularisation", "transience/regularisation"),
    Published("16", "regularisation by type of layer", reason=_NOT_RUN),
    Published("? (6)", "competition of circuits", reason=_NOT_RUN),
    Published(
        "? (appendix)",
        "fixed features of Omniglot, twelve layers",
        reason="1.6 billion sequences of a deep model; `python -m sweeps transience "
        "--scale paper` has it, for a GPU",
    ),
    Published("ours", "controls: how exemplars vary", "transience/spread"),
)
