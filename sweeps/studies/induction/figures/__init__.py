"""Figures of the induction-head paper.

What they are drawn from is read off runs in `analysis`, beside this folder.
"""

from . import _heads, _losses


FIGURES = (*_losses.FIGURES, *_heads.FIGURES)
"""All of them."""
