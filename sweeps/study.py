"""What a study is: a Python file that lists trials."""

import dataclasses
import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from icl import Experiment
from icl.data import Source
from icl.plugins import import_plugin
from opto.hints import did_you_mean

from .options import StudyScale as StudyScale


STUDIES = "sweeps.studies"
"""The package that holds a folder for each paper."""
STUDIES_FOLDER = Path(__file__).parent / "studies"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run of a study.

    If its experiment starts from another trial's folder, grafts from it, or names heads
    measured there, the trial needs that one's checkpoint. The launcher finds these
    needs itself; a study does not declare them.
    """

    name: str
    """The name of its folder: letters, digits and `._+-`."""
    experiment: Experiment
    """What it trains."""

    def __post_init__(self):
        named = isinstance(self.name, str)
        if not named or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", self.name):
            wanted = "letters, digits and ._+-, beginning with a letter or digit"
            raise ValueError(f"a trial's name must be {wanted}, got {self.name!r}")
        if not isinstance(self.experiment, Experiment):
            got = f"got {reprlib.repr(self.experiment)}"
            raise ValueError(f"trial {self.name!r} needs an icl.Experiment, {got}")


class StudyModule(Protocol):
    """What the module of a study must define."""

    def trials(
        self, scale: StudyScale, folder: Path, data: Source | None
    ) -> Iterable[Trial]:
        """Lists all trials of a scale.

        **Arguments:**

        - `scale`: `smoke` is two minutes on two cores, `small` is for a laptop and
            `paper` what was published.
        - `folder`: The study's folder, absolute. The trial `main` trains in
            `folder / "main"`; others may start or graft from there, or measure their
            heads there.
        - `data`: The user's classes; `None` leaves the choice to the study.
        """
        ...


def study_names() -> list[str]:
    """The names of the studies that come with this package."""
    return sorted(_ours())


def _ours() -> dict[str, str]:
    """The modules of our studies, by name.

    A study is a folder anywhere in `sweeps/studies` that has a file `runs.py`. Its name
    is the folder's.
    """
    found = {}
    for file in STUDIES_FOLDER.rglob("runs.py"):
        parts = file.parent.relative_to(STUDIES_FOLDER).parts
        found[parts[-1]] = ".".join((STUDIES, *parts, "runs"))
    return found


def load_study(name: str) -> tuple[str, StudyModule]:
    """Loads a study by the name of ours or the path of a Python file.

    The study is imported as a plug-in. Its jobs import it too, so it may define tasks,
    models, edits and measures.

    **Returns:** The study's name, and its module.

    **Raises:** `ValueError` if there is no such study, or it does not define `trials`.
    """
    ours = _ours()
    if name in ours:
        return name, _study(import_plugin(ours[name]), name)
    path = Path(name)
    if path.suffix != ".py":
        known = study_names()
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        raise ValueError(f"no study {name!r}{hint} (or the path of a Python file)")
    if not path.is_file():
        raise ValueError(f"there is no study file {path}")
    return path.stem, _study(import_plugin(str(path)), str(path))


def _study(module: Any, name: str) -> StudyModule:
    if not callable(getattr(module, "trials", None)):
        raise ValueError(f"{name} does not define trials(scale, folder, data)")
    return module


def list_trials(
    study: StudyModule, scale: StudyScale, folder: Path, data: Source | None
) -> list[Trial]:
    """The trials of a study.

    **Raises:** `ValueError` if there is none, two have the same name, one is not a
    `Trial`, none uses the given `data`, or the study raises an error.
    """
    try:
        found = list(study.trials(scale, folder, data))
    except ValueError:
        raise
    except (Exception, SystemExit) as error:  # `sys.exit` would end this command.
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"the study cannot list its trials: {reason}") from error
    if not found:
        raise ValueError(f"the study has no trials at scale {scale!r}")
    seen: set[str] = set()
    for trial in found:
        if not isinstance(trial, Trial):
            raise ValueError(f"a study must list sweeps.Trial, got {trial!r}")
        if trial.name in seen:
            raise ValueError(f"the study has two trials named {trial.name!r}")
        seen.add(trial.name)
    if data is not None and all(trial.experiment.data != data for trial in found):
        raise ValueError("the study draws its own data; give it no --data")
    return found


def with_seeds(
    experiments: Mapping[str, Experiment], seeds: Iterable[int]
) -> list[Trial]:
    """A trial for each experiment and seed, called `NAME-seed-SEED`.

    Each seed has its own evaluation sets, so that an interval over seeds also has their
    error.
    """
    return [
        Trial(
            f"{name}-seed-{seed}",
            dataclasses.replace(
                experiment, init_seed=seed, train_seed=seed, eval_seed=seed
            ),
        )
        for name, experiment in experiments.items()
        for seed in seeds
    ]
