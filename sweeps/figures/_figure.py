"""What a figure is: which runs it needs, what is measured on them, what is claimed."""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from icl.plots import DrawnFigure

from ._claims import Claim
from ._row import Row


_SEED = "{seed}"
"""Stands in the name of a run for its seed."""


@dataclasses.dataclass(frozen=True)
class Runs:
    """The runs of a figure, finished.

    **Fields:**

    - `folders`: By what a run is in the figure, the folder for each seed, `[seed]`.
    - `seeds`: The seeds; one, 0, where runs have none in their names.
    """

    folders: Mapping[str, tuple[Path, ...]]
    seeds: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was found.

    **Fields:**

    - `values`: By the name of a row, `[seed]`; `inf` for an event that did not come,
        NaN where it could not. A row that is not there was not measured.
    - `figure`: The picture.
    """

    values: Mapping[str, Float[np.ndarray, " seed"]]
    figure: DrawnFigure


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper, from its runs to what it is said to show.

    **Fields:**

    - `name`: `paper/number`.
    - `shows`: In a line.
    - `source`: Where it is from, and where its targets are.
    - `study`: Whose runs it needs; empty for a toy model, which needs none.
    - `runs`: By what a run is in the figure, its name in the study, in which `{seed}`
        is a number and `*` anything; of several, divided by `|`, the first that is
        there at a scale.
    - `cost`: How long it takes at scale `small` on two cores, roughly.
    - `measure`: What is read off and drawn.
    - `rows`: By name, in order: what was published, and its unit.
    - `claims`: What it is said to show, written down before the runs that they are
        judged on.
    - `about`: What the rows are, `"sequences until …"`.
    - `fresh`: The seeds that claims are judged on, where others were seen before the
        claims were written; empty if all are.
    """

    name: str
    shows: str
    source: str
    cost: str
    about: str
    measure: Callable[[Runs], Measured]
    rows: Mapping[str, Row]
    claims: tuple[Claim, ...]
    study: str = ""
    runs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fresh: tuple[int, ...] = ()

    @property
    def targets(self) -> dict[str, float]:
        """What was published, by row."""
        return {name: row.target for name, row in self.rows.items()}

    def judged(self, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the seeds that claims are judged on; all if none is fresh."""
        return tuple(seed for seed in seeds if seed in self.fresh) or seeds

    @property
    def stem(self) -> str:
        """The name of its files."""
        return self.name.replace("/", "-")

    def found(
        self, names: Collection[str], seeds: Collection[int] = ()
    ) -> dict[str, dict[int, str]]:
        """By what a run is in the figure, the name of the run of each seed.

        Runs missing at this scale are skipped.

        **Arguments:**

        - `names`: Of the study's runs.
        - `seeds`: Those that are wanted; none means all.

        **Raises:** `ValueError` for a seed that is not there.
        """
        every = {label: _matching(name, names) for label, name in self.runs.items()}
        there = {seed for by_seed in every.values() for seed in by_seed}
        if seeds and not any(_SEED in name for name in self.runs.values()):
            raise ValueError(f"--seeds: {self.name} is of one seed in this study")
        for seed in seeds:
            if seed not in there:
                has = ", ".join(map(str, sorted(there))) or "none"
                raise ValueError(f"--seeds: there is no seed {seed}; there are {has}")
        chosen = sorted(seeds or there)
        return {
            label: {seed: by_seed[seed] for seed in chosen}
            for label, by_seed in every.items()
            if by_seed.keys() >= {*chosen} and chosen
        }


def _matching(name: str, runs: Collection[str]) -> dict[int, str]:
    """The runs that have a name, by seed; 0 where the name has none."""
    for each in name.split("|"):
        pattern = re.escape(each.strip()).replace(re.escape(_SEED), r"(\d+)")
        matches = [re.fullmatch(pattern.replace(r"\*", ".*"), run) for run in runs]
        found = [match for match in matches if match is not None]
        if found:
            return {int(m[1]) if m.groups() else 0: m[0] for m in found}
    return {}
