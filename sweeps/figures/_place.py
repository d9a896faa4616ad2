"""In which folder a study's runs are, or are to be: told by what is in it."""

import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path

from icl import Experiment
from icl.config import changed, to_json

from ..folder import Folder
from ..study import StudyScale


Planned = Callable[[Path], dict[str, Experiment]]
"""The experiments of the study if it is in a folder, whose path is in some of them."""


def place(
    out: Path, study: str, scale: StudyScale, planned: Planned, runs: Collection[str]
) -> tuple[Folder, list[str]]:
    """The folder in `out` that holds these runs of a study, or a new one for them.

    Beside it, if it is new, why the runs in the study's other folders will not do.

    A matching folder is reused under any name. Runs are the same if their configs are:
    those of another scale, data or code are not. Nothing that is there is changed: a
    new folder has the name of the study, with the scale or the content too if that name
    is taken.
    """
    files = sorted(out.glob("*/_sweep/study.json"))
    notes = []
    for folder in (Folder(file.parent.parent) for file in files):
        try:
            folder.check(study, scale)
            other = _other(folder, planned, runs)
        except ValueError:  # Another study's or scale's, damaged, or moved.
            continue
        if not other:
            return folder, []
        notes.append(f"{folder.path} holds other runs: {other}")
    names = (study, f"{study}-{scale}", f"{study}-{scale}-{_content(planned, runs)}")
    free = (Folder(out / name) for name in names if _free(out / name))
    return next(free, Folder(out / names[-1])), notes


def _other(folder: Folder, planned: Planned, runs: Collection[str]) -> str:
    """How the runs in a folder differ from those wanted; empty if they do not."""
    there, wanted = folder.configs, planned(folder.path)
    known = [run for run in runs if run in there]
    if not known:
        return "none of these"
    texts = (text for run in known for text in changed(there[run], wanted[run]))
    return next(texts, "")


def _free(path: Path) -> bool:
    # `_sweep` alone is what a launch leaves that was killed at once.
    if not path.is_dir():
        return not path.exists()
    return (
        not {file.name for file in path.iterdir()} - {"_sweep"}
        and not (path / "_sweep" / "study.json").exists()
    )


def _content(planned: Planned, runs: Collection[str]) -> str:
    """What tells sets of runs apart, in eight letters and digits."""
    wanted = planned(Path("/"))
    configs = {run: to_json(wanted[run]) for run in sorted(runs)}
    return hashlib.sha256(json.dumps(configs).encode()).hexdigest()[:8]
