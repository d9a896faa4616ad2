"""Finds the folder that holds a study's runs, or a new one for them."""

import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path

from icl import Experiment
from icl.config import changed, to_json

from ..folder import Folder
from ..study import StudyScale


Planned = Callable[[Path], dict[str, Experiment]]
"""Makes the study's experiments for a folder; some of them contain its path."""


def study_folder(
    out: Path, study: str, scale: StudyScale, planned: Planned, runs: Collection[str]
) -> tuple[Folder, list[str]]:
    """The folder in `out` that holds these runs of a study, or a new one for them.

    A matching folder is reused under any name. Runs are the same if their configs are:
    those of another scale, data or code are not. Existing folders are not changed. A
    new folder has the name of the study; if that name is taken, the scale is added, and
    then a hash of the runs.

    **Returns:** The folder, and, if it is new, notes why the study's other folders do
    not match.
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
    candidates = [Folder(out / name) for name in names]
    free = (folder for folder in candidates if _free(folder, study, scale))
    return next(free, candidates[-1]), notes


def _other(folder: Folder, planned: Planned, runs: Collection[str]) -> str:
    """How the runs in a folder differ from the wanted ones; empty if they do not."""
    there, wanted = folder.configs, planned(folder.path)
    known = [run for run in runs if run in there]
    if not known:
        return "none of these"
    texts = (text for run in known for text in changed(there[run], wanted[run]))
    return next(texts, "")


def _free(folder: Folder, study: str, scale: StudyScale) -> bool:
    try:
        folder.check(study, scale)
    except ValueError:
        return False
    return not folder.is_study


def _content(planned: Planned, runs: Collection[str]) -> str:
    """A hash of the runs' configs, eight characters long."""
    wanted = planned(Path("/"))
    configs = {run: to_json(wanted[run]) for run in sorted(runs)}
    return hashlib.sha256(json.dumps(configs).encode()).hexdigest()[:8]
