"""Named presets: one function a study, returning the config of a run.

What a study runs in all is in `sweeps`.
"""

from .coopetition import (
    coopetition,
    coopetition_12_layers,
    coopetition_ciwl,
    coopetition_icl,
)
from .induction import induction
from .transience import transience, transience_clusters


__all__ = [
    "coopetition",
    "coopetition_12_layers",
    "coopetition_ciwl",
    "coopetition_icl",
    "induction",
    "transience",
    "transience_clusters",
]
