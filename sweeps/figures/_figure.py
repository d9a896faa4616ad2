"""A figure: the runs it needs, what it measures on them, and what it claims."""

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from icl.plots import DrawnFigure

from ._claims import Claim
from ._row import Row


_SEED = "{seed}"
"""Stands for the seed in the name of a run."""


@dataclasses.dataclass(frozen=True)
class Runs:
    """The finished runs of a figure.

    **Fields:**

    - `folders`: The folder for each seed, `[seed]`, by the label of the run.
    - `seeds`: The seeds; only 0 if the names of the runs have no seed.
    """

    folders: Mapping[str, tuple[Path, ...]]
    seeds: tuple[int, ...]

    @staticmethod
    def of(study: Path, found: Mapping[str, Mapping[int, str]]) -> "Runs":
        """The runs that `Figure.found` names, in the folder of their study."""
        folders = {
            label: tuple(study / run for run in by_seed.values())
            for label, by_seed in found.items()
        }
        return Runs(folders, tuple(next(iter(found.values()))))


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was measured for a figure.

    **Fields:**

    - `values`: `[seed]` by the name of the row; `inf` for an event that did not come,
        NaN where it could not come. A missing row was not measured.
    - `figure`: The drawing.
    """

    values: Mapping[str, Float[np.ndarray, " seed"]]
    figure: DrawnFigure


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper, from its runs to its claims.

    **Fields:**

    - `name`: `paper/number`.
    - `shows`: What it shows, in one line.
    - `source`: The source of the figure and of its targets.
    - `study`: The study whose runs it needs; empty for a toy model, which needs none.
    - `runs`: The name of each run in the study, by its label in the figure. In a name,
        `{seed}` stands for a number and `*` for anything; `|` separates names, and the
        first one that exists at a scale is used.
    - `cost`: Roughly how long it takes at scale `small` on two cores.
    - `measure`: Measures the runs and draws the figure.
    - `rows`: The published number and its unit, by the name of the row, in order.
    - `claims`: Its claims, written down before the runs that they are judged on.
    - `about`: What the rows are, such as `"sequences until …"`.
    - `targets_at`: The scale with the published size, if the published numbers mean
        nothing at another; empty if they are comparable at all scales.
    - `fresh`: The seeds that claims are judged on, if others were seen before the
        claims were written; empty if claims are judged on all seeds.
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
    targets_at: str = ""
    fresh: tuple[int, ...] = ()

    def at(self, scale: str) -> "Figure":
        """The figure at a scale; without published numbers that are of another."""
        if self.targets_at in ("", scale):
            return self
        rows = {name: Row(math.nan, row.unit) for name, row in self.rows.items()}
        return dataclasses.replace(self, rows=rows)

    @property
    def targets(self) -> dict[str, float]:
        """The published numbers, by row."""
        return {name: row.target for name, row in self.rows.items()}

    def judged(self, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """The seeds among these that claims are judged on; all if none is fresh."""
        return tuple(seed for seed in seeds if seed in self.fresh) or seeds

    def is_judged_at(self, scale: str) -> bool:
        """Whether runs of a scale are long enough to judge."""
        return scale != "smoke" or not self.study

    @property
    def stem(self) -> str:
        """The stem of its file names."""
        return self.name.replace("/", "-")

    def found(
        self, names: Collection[str], seeds: Collection[int] = ()
    ) -> dict[str, dict[int, str]]:
        """The name of the run of each seed, by the run's label in the figure.

        Runs missing at this scale are skipped.

        **Arguments:**

        - `names`: The names of the study's runs.
        - `seeds`: The wanted seeds; none means all that every run has.

        **Raises:** `ValueError` for a seed that does not exist.
        """
        every = {label: _matching(name, names) for label, name in self.runs.items()}
        of_runs = [{*by_seed} for by_seed in every.values() if by_seed]
        there: set[int] = set().union(*of_runs)
        for seed in seeds:
            if seed not in there:
                has = ", ".join(map(str, sorted(there))) or "none"
                raise ValueError(f"--seeds: there is no seed {seed}; there are {has}")
        chosen = sorted(seeds or there.intersection(*of_runs))
        return {
            label: {seed: by_seed[seed] for seed in chosen}
            for label, by_seed in every.items()
            if by_seed.keys() >= {*chosen} and chosen
        }


def _matching(name: str, runs: Collection[str]) -> dict[int, str]:
    """The runs that match a name, by seed; 0 if the name has no seed."""
    for each in name.split("|"):
        pattern = re.escape(each.strip()).replace(re.escape(_SEED), r"(\d+)")
        matches = [re.fullmatch(pattern.replace(r"\*", ".*"), run) for run in runs]
        found = [match for match in matches if match is not None]
        if found:
            return {int(m[1]) if m.groups() else 0: m[0] for m in found}
    return {}
