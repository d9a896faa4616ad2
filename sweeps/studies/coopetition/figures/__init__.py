"""Figures of Singh et al. 2025, "Strategy coopetition explains the emergence and
transience of in-context learning" (arXiv 2503.05631).

Layer 0 is the paper's layer 1, and layer 1 its layer 2.
"""

from . import _cooperation, _mechanism, _passage, _variants


FIGURES = (
    *_passage.FIGURES,
    *_mechanism.FIGURES,
    *_cooperation.FIGURES,
    *_variants.FIGURES,
)
"""All of them."""
