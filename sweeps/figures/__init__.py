"""Figures of the papers as values: runs, measurement, targets and claims of each."""

from . import coopetition, induction
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


FIGURES = {each.name: each for each in (*induction.FIGURES, *coopetition.FIGURES)}
"""By name."""
