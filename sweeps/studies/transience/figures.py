"""Figures of Singh et al. 2023, "The transient nature of emergent in-context learning
in transformers" (arXiv 2311.08360)."""

import math

from ...figures import Figure
from .._transience import comes_and_goes, HEIGHTS, TIMES, transient


FIGURES = (
    Figure(
        "transience/flip",
        "learning in context is transient: labels exchanged are followed, then not",
        "Singh et al. 2023, arXiv 2311.08360; targets are of another code's one seed, "
        "at scale small on synthetic classes",
        cost="60 min, five seeds",
        about="accuracy among labels in context, and sequences seen",
        study="transience",
        runs={"main": "omniglot-12800*-seed-{seed} | omniglot-64*-seed-{seed}"},
        measure=comes_and_goes,
        targets={
            **dict(zip(HEIGHTS, (0.69, 0.13, 0.93, 0.96), strict=True)),
            **dict(zip(TIMES, (math.nan, 576e3, 1.4e6), strict=True)),
        },
        claims=transient(seeds=3),
    ),
)
