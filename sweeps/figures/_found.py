"""Which figures there are: those of each paper's folder in `sweeps.studies`."""

import functools
import importlib

from opto.hints import did_you_mean

from ..study import STUDIES, STUDIES_FOLDER
from ..text import some_of
from ._figure import Figure


@functools.cache
def all_figures() -> dict[str, Figure]:
    """The figures of all papers by name: `FIGURES` of each folder's `figures`."""
    files = (*STUDIES_FOLDER.glob("*/figures.py"), *STUDIES_FOLDER.glob("*/figures/"))
    every: list[Figure] = []
    for paper in {file.parent.name for file in files}:
        every += importlib.import_module(f"{STUDIES}.{paper}.figures").FIGURES
    return {each.name: each for each in sorted(every, key=lambda each: each.name)}


def find_figure(name: str) -> Figure:
    """A figure by its name, `paper/number`.

    **Raises:** `ValueError` if there is none.
    """
    known = all_figures()
    if name in known:
        return known[name]
    ends = [each for each in known if each.endswith(f"/{name}")]
    hint = did_you_mean(name, ends, cutoff=0.0) or did_you_mean(name, known)
    raise ValueError(f"no figure {name!r}{hint or f'; there is {some_of(known)}'}")
