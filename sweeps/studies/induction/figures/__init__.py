"""Figures of the induction-head paper.

The measurements that they draw are in `analysis`, beside this folder.
"""

from . import _appendix, _circuits, _heads, _losses, _sizes


FIGURES = (
    *_losses.FIGURES,
    *_sizes.FIGURES,
    *_heads.FIGURES,
    *_appendix.FIGURES,
    *_circuits.FIGURES,
)
"""All of them."""
