"""Which runs of this paper's studies belong together, and which have learnt."""

import math
from collections.abc import Iterable

from ....analysis import Study


LEARNT = 0.4 * math.log(2)
"""Figure 4b counts a run as having learnt if its loss is below this."""


def clamps_by_seed(study: Study, clamps: Iterable[str]) -> dict[str, list[str]]:
    """The runs of the study `clamps` for each clamp: `seed-5-match`, …."""
    seeds = [name for name in study if name.count("-") == 1]
    return {
        clamp: [f"{s}-{clamp}" for s in seeds if f"{s}-{clamp}" in study]
        for clamp in clamps
    }
