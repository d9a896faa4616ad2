"""Which runs of the studies of this paper belong together, and which have learnt."""

import math
from collections.abc import Iterable

from ....analysis import Study


LEARNT = 0.4 * math.log(2)
"""The loss below which its figure 4b counts a run as having learnt."""


def clamps_by_seed(study: Study, clamps: Iterable[str]) -> dict[str, list[str]]:
    """The runs of the study `clamps` under each clamp: `seed-5-match`, ….

    A seed is whatever comes before the clamp in the name of a run.
    """
    seeds = [name for name in study if name.count("-") == 1]
    return {
        clamp: [f"{s}-{clamp}" for s in seeds if f"{s}-{clamp}" in study]
        for clamp in clamps
    }
