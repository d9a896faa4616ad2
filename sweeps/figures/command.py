"""`icl figure`: makes one figure of a paper from scratch.

The command trains the runs that are missing, measures them, compares the numbers with
the published ones, and draws the figure. The figures are in the folders of
`sweeps.studies`.
"""

import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from icl import Experiment, plots
from icl.cli.options import parse
from icl.cli.results import check_folder
from icl.config import changed, to_json
from icl.data import classes_in, HDF5Classes, Source
from icl.files import write_bytes
from icl.runs import disk

from ..execute import executor_of, plan, plan_table, train
from ..folder import Folder
from ..options import FigureOptions
from ..plan import experiments_of, Wanted, wanted
from ..study import list_trials, load_study, StudyModule, StudyScale
from ._figure import Figure, Measured, Runs
from ._papers import all_figures, find_figure
from ._table import as_json, figures_table, Judged, report
from ._verdict import Verdict


def figure(arguments: list[str], program: str = "icl") -> int:
    """Runs the command; returns its exit status.

    **Raises:** `ValueError` for options that cannot be satisfied.
    """
    options = parse(FigureOptions, arguments, "figure", program)
    if not options.name:
        print(figures_table(all_figures().values()))
        return 0
    chosen = find_figure(options.name)
    check_folder(options.out)
    if not chosen.study:
        return _toy(chosen, options)
    needed = _needed(chosen, options)
    executor = executor_of(options.cluster, options.cluster_file, options.jobs)
    if options.dry_run:
        print(plan_table(plan(needed.folder, needed.asked, executor, None, True)))
        return 0
    if needed.unfinished:
        folder, asked = needed.folder, needed.asked
        print(f"training in {folder.path}", file=sys.stderr)
        if not train(folder, chosen.study, options.scale, asked, executor):
            return 1
        if needed.unfinished:  # They are on a cluster.
            print("once the runs are finished, the same command draws the figure")
            return 0
    measured = chosen.measure(needed.runs)
    print(f"runs: {needed.folder.path}", file=sys.stderr)
    about = f"study {chosen.study}, scale {options.scale}"
    return _finish(chosen, options, measured, needed.runs.seeds, [about, needed.data])


def _toy(chosen: Figure, options: FigureOptions) -> int:
    for name in ("data", "seeds", "dry_run", "cluster_file"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option}: {chosen.name} is a toy model without runs")
    measured = chosen.measure(Runs({}, (0,)))
    about = ["a toy model without runs: the same at every scale, as published"]
    return _finish(chosen, options, measured, (0,), about)


@dataclasses.dataclass(frozen=True)
class _Needed:
    """The runs of a figure, finished or not."""

    folder: Folder
    asked: Wanted
    names: dict[str, dict[int, str]]
    """The names of the runs by label in the figure and by seed."""

    @property
    def unfinished(self) -> list[str]:
        """The runs of the figure that are not finished yet."""
        experiments = {n: self.asked.experiments[n] for n in self.asked.chosen}
        done = self.folder.finished
        # A run that only finished runs need may be gone.
        drawn = {run for by_seed in self.names.values() for run in by_seed.values()}
        return [n for n in drawn if not done(n, experiments[n])]

    @property
    def runs(self) -> Runs:
        """The folders and seeds of the runs."""
        return Runs.of(self.folder.path, self.names)

    @property
    def data(self) -> str:
        """A line on the classes that replace the paper's features."""
        run = next(iter(next(iter(self.names.values())).values()))
        data = self.asked.experiments[run].data
        return "" if data is None else _data_text(data)


def _needed(chosen: Figure, options: FigureOptions) -> _Needed:
    study, module = load_study(chosen.study)
    data = classes_in(options.data) if options.data else None

    @functools.cache
    def planned(path: Path) -> dict[str, Experiment]:
        return _experiments(module, options.scale, Folder(path), data)

    names = chosen.found([*planned(Folder(options.out / study).path)], options.seeds)
    if not names:
        raise ValueError(
            f"{chosen.name} has no runs at scale {options.scale!r} of the study {study}"
        )
    runs = [run for by_seed in names.values() for run in by_seed.values()]
    folder, notes = study_folder(options.out, study, options.scale, planned, runs)
    folder.check(study, options.scale)
    for note in notes:
        print(f"{note}; not used", file=sys.stderr)
    return _Needed(folder, wanted(folder, planned(folder.path), runs), names)


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
            found = folder.read()
        except ValueError:  # It is damaged, and may be of any study.
            continue
        if (found["study"], found["scale"]) != (study, scale):
            continue
        try:
            folder.check(study, scale)
            other = _other(folder, planned, runs)
        except ValueError as error:  # For example, it was moved.
            notes.append(str(error).removeprefix("--out: "))
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


def _experiments(
    module: StudyModule, scale: StudyScale, folder: Folder, data: HDF5Classes | None
) -> dict[str, Experiment]:
    return experiments_of(list_trials(module, scale, folder.path, data), (), folder)


def _data_text(data: Source) -> str:
    if isinstance(data, HDF5Classes):
        name = Path(data.file).name
        return f"on {name} as it is, in place of the paper's features of Omniglot"
    kind = type(data).__name__
    return f"on synthetic classes ({kind}), in place of the paper's Omniglot features"


def _named(data: str) -> str:
    """A short name for the user's data, different for each file and dataset."""
    file, _, _ = data.partition(".h5")
    whole = hashlib.sha256(os.fsencode(os.path.abspath(data))).hexdigest()
    return f"{Path(file).name}-{whole[:6]}"


def _finish(
    chosen: Figure,
    options: FigureOptions,
    measured: Measured,
    seeds: tuple[int, ...],
    about: list[str],
) -> int:
    """Writes the figure, prints the numbers, and returns the exit status."""
    folder = options.out / "figures"
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    judged = chosen.is_judged_at(options.scale)
    # Figures of different scales, seeds or data do not overwrite each other.
    scale = f"-{options.scale}" if chosen.study else ""
    own = f"-{_named(options.data)}" if options.data else ""
    some = "".join(f"-seed-{seed}" for seed in options.seeds) if chosen.study else ""
    path = folder / f"{chosen.stem}{scale}{own}{some}.png"
    for file in (path, path.with_suffix(".pdf")):
        plots.save(measured.figure, file)
    found = Judged(chosen.at(options.scale), measured, seeds)
    content = as_json(
        found,
        options.scale,
        about,
        chosen_seeds=bool(options.seeds),
        own_data=bool(options.data),
    )
    write_bytes(path.with_suffix(".json"), json.dumps(content, indent=2).encode())
    print(report(found, about, judged))
    print(f"{path}, .pdf; drawn data: .h5; the table: .json", file=sys.stderr)
    failed = {Verdict.NOT_REPRODUCED, Verdict.ABSENT} & {*found.claims.values()}
    return 1 if judged and failed else 0
