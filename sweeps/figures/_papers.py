"""What each paper's folder in `sweeps.studies` has: its figures, what it published."""

import dataclasses
import functools
import importlib
from fnmatch import fnmatchcase
from types import ModuleType

from opto.hints import did_you_mean

from ..study import STUDIES, STUDIES_FOLDER
from ..text import some_of
from ._figure import Figure


@dataclasses.dataclass(frozen=True)
class Published:
    """A figure or a table of a paper.

    **Fields:**

    - `number`: Its number in the paper, such as `"4b"`.
    - `shows`: What it shows, in a few words.
    - `figure`: The name of our figure for `icl figure`, or empty.
    - `rows`: Which rows of our figure are of this one, as patterns such as `"A: *"`;
        none means all. Its claims are those about these rows only.
    - `notebook`: The notebook that draws it, if no `icl figure` does.
    - `reason`: Why nothing is judged, if so. Without a notebook, it is absent.
    """

    number: str
    shows: str
    figure: str = ""
    rows: tuple[str, ...] = ()
    notebook: str = ""
    reason: str = ""

    def __post_init__(self):
        if not self.figure and not self.reason:
            raise ValueError(f"figure {self.number} has neither a figure nor a reason")

    def has(self, row: str) -> bool:
        """Whether a row of our figure is of this one."""
        return not self.rows or any(fnmatchcase(row, each) for each in self.rows)

    def claims(self) -> set[str]:
        """The texts of our figure's claims that are about its rows."""
        every = all_figures()[self.figure].claims
        return {str(claim) for claim in every if all(map(self.has, claim.about))}


@functools.cache
def all_figures() -> dict[str, Figure]:
    """The figures of all papers by name, from `FIGURES` in each folder's `figures`."""
    every = [each for module in _modules("figures") for each in module.FIGURES]
    return {each.name: each for each in sorted(every, key=lambda each: each.name)}


def all_published() -> dict[str, tuple[Published, ...]]:
    """What each paper published, by paper, from each folder's `published`."""
    return {module.PAPER: module.PUBLISHED for module in papers().values()}


def papers() -> dict[str, ModuleType]:
    """The module `published` of each paper's folder, by the name of the folder."""
    return {each.__name__.split(".")[-2]: each for each in _modules("published")}


def _modules(name: str) -> list[ModuleType]:
    """The module or package called `name` in each paper's folder."""
    papers = {
        file.parent.name
        for pattern in (f"*/{name}.py", f"*/{name}/")
        for file in STUDIES_FOLDER.glob(pattern)
    }
    return [
        importlib.import_module(f"{STUDIES}.{paper}.{name}") for paper in sorted(papers)
    ]


def find_figure(name: str) -> Figure:
    """A figure by its name, `paper/number`.

    **Raises:** `ValueError` if there is none.
    """
    known = all_figures()
    if name in known:
        return known[name]
    ends = [each for each in known if each.endswith(f"/{name}")]
    hint = did_you_mean(name, ends, cutoff=0.0) or did_you_mean(name, known)
    raise ValueError(f"no figure {name!r}{hint or f'; known: {some_of(known)}'}")
