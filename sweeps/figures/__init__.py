"""Figures of the papers as values: runs, measurement, targets and claims of each."""

from . import coopetition, heads, induction
from ._claims import (
    Alike as Alike,
    Claim as Claim,
    Ordering as Ordering,
    Same as Same,
    shown as shown,
    Together as Together,
    Within as Within,
)
from ._figure import Figure as Figure, Measured as Measured, Runs as Runs


_EVERY = (*induction.FIGURES, *heads.FIGURES, *coopetition.FIGURES)
FIGURES = {each.name: each for each in sorted(_EVERY, key=lambda each: each.name)}
"""By name."""
