"""Figures of the induction-head paper."""

from . import _heads, _losses


FIGURES = (*_losses.FIGURES, *_heads.FIGURES)
"""All of them."""
