"""`sweeps.collect`: what all runs of a study logged, as one tidy table."""

import dataclasses
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import pandas as pd
import tyro
from tqdm import tqdm

from icl.cli.options import CommandOptions, parse
from icl.config import from_json
from icl.files import check_writable, write_bytes, write_hdf5
from icl.plugins import made_with
from icl.protocols import Summary, TaskConfig
from icl.runs import Run
from icl.summaries import over_events, scalars

from ..folder import Folder
from ..plan import matching
from ..text import counted


TRAINING = "training"
"""The set of the training metrics: means over the steps since the last event."""
_TEXT = h5py.string_dtype()


@dataclasses.dataclass(frozen=True)
class CollectOptions(CommandOptions):
    """Gather what all runs of a study logged in one table.

    It has a row for each run, evaluation set and event. The columns are the config
    fields in which runs differ, the sequences seen, and each metric.
    """

    EXAMPLE: ClassVar[str] = "python -m sweeps collect runs/induction --out all.csv"

    folder: tyro.conf.Positional[Path]
    """The study's folder."""
    out: Path | None = None
    """The file to write, .h5 or .csv; by default collected.h5 in the study's folder. An
    earlier table is replaced; any other file is an error."""
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A pattern of run names, such as 'clamp-*'. May be repeated."""


def collect_command(arguments: list[str]) -> int:
    """Runs the command; returns its exit status, 1 if a run could not be read.

    **Raises:** `ValueError` if the folder holds no study, a pattern matches no run, the
    output cannot be written, or no run has logged anything.
    """
    options = parse(CollectOptions, arguments, "collect", program="python -m sweeps")
    folder = Folder(options.folder)
    study, configs = folder.read(), folder.configs
    out = options.out or folder.path / "collected.h5"
    if out.suffix not in (".h5", ".csv"):
        raise ValueError(f"--out: {out} must end in .h5 or .csv")
    if not out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {out.parent}")
    if out.exists() and not _is_table(out):
        raise ValueError(f"--out: {out} exists and is not a table of this command")
    check_writable(out.parent)
    runs = matching(options.only, configs)
    table, problems = _gather(folder, configs, runs)
    logged = {*table["run"]}
    for run in runs:
        if run not in logged and run not in problems:
            print(f"{run} has logged nothing yet", file=sys.stderr)
    for problem in problems.values():
        print(problem, file=sys.stderr)
    if table.empty:
        raise ValueError(f"no run of {folder.path} has a log that can be read")
    if out.suffix == ".csv":
        write_bytes(out, table.to_csv(index=False, na_rep="nan").encode())
    else:
        unfinished = [run for run in runs if not folder.finished(run, configs[run])]
        _write_hdf5(out, table, study, unfinished)
    print(f"{counted(len(table), 'row')} of {counted(len(logged), 'run')}: {out}")
    return 1 if problems else 0


def _is_table(file: Path) -> bool:
    """Whether this command wrote a file, so that it may replace it."""
    if file.suffix == ".csv":
        return file.read_bytes().startswith(b"run,")
    if not h5py.is_hdf5(file):
        return False
    with h5py.File(file) as found:
        return "columns" in found.attrs


def collect(folder: str | os.PathLike, only: Sequence[str] = ()) -> pd.DataFrame:
    """The table of a study's runs, with what they have logged so far.

    The columns are `run`, the config fields in which runs differ, `sequences`, `set`
    and the metrics. A metric is the summary of a set (`icl.summaries.scalars`: a metric
    by position has two columns); for the set `training` it is the mean over the steps
    since the last event. Missing values are NaN or empty texts. Units, where known, are
    in `attrs["units"]`. Warns of configs and logs that cannot be read.

    If a plug-in of the study fails or is gone, only the runs that need it are missing.

    **Arguments:**

    - `only`: Patterns of run names, such as `"clamp-*"`; none means all.

    **Raises:** `ValueError` if the folder holds no study, or a pattern matches no run.
    """
    study = Folder(folder)
    configs = study.configs
    table, problems = _gather(study, configs, matching(only, configs))
    for problem in problems.values():
        warnings.warn(problem, stacklevel=2)
    return table


# What they logged


def _gather(
    folder: Folder, configs: Mapping[str, Any], runs: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table, and why a run's config or log could not be read, by run."""
    study = folder.read()
    frames: list[pd.DataFrame] = []
    problems: dict[str, str] = {}
    units: dict[str, set[str]] = {}
    for run in tqdm(runs, desc="collecting", unit="run", disable=None, leave=False):
        path = folder.run(run)
        if not (path / "log.h5").exists():
            continue
        try:
            with made_with(study.get("plugins", ())):
                task = from_json(TaskConfig, Run(path).config["task"])
            logged = [*_logged(Run(path), task.summaries)]
        except ValueError as error:
            problems[run] = f"{run} cannot be read: {error}"
            continue
        frames += [each.assign(run=run) for each in logged]
        for name in {str(name) for each in logged for name in each}:
            if name == "loss" or name.endswith("_loss"):
                units.setdefault(name, set()).add(task.loss_unit)
    none = pd.DataFrame({"run": [], "sequences": [], "set": []}, dtype=str)
    rows = pd.concat(frames or [none], ignore_index=True)
    metrics = [name for name in rows if name not in none]
    fields = differing(study["folder"], configs)
    table = rows[["run"]].join(fields, on="run")
    table = pd.concat([table, rows[["sequences", "set", *metrics]]], axis=1)
    # A loss has a unit if the tasks of all runs have the same.
    same = {name: min(each) for name, each in units.items() if len(each) == 1}
    losses = {name: unit for name, unit in same.items() if unit}
    table.attrs["units"] = {"sequences": "sequences seen", **losses}
    return table, problems


def _logged(
    run: Run, summaries: Mapping[str, Summary | None]
) -> Iterator[pd.DataFrame]:
    """The metrics of each set of a run's log at each event.

    **Raises:** `ValueError` if the log cannot be read.
    """
    log = run.log
    ends = log.events // run.config["training"]["batch_size"]
    starts = np.concatenate([[0], ends[:-1]])
    some = ends > starts  # No step comes before an event at 0.
    if some.any():
        pairs = list(zip(starts[some], ends[some], strict=True))
        means = {
            name: [rows[a:b].mean(dtype=np.float64) for a, b in pairs]
            for name, rows in log.train.items()
        }
        yield pd.DataFrame({"sequences": log.events[some], "set": TRAINING, **means})
    for name, rows in log.evaluations.items():
        if name == TRAINING:
            raise ValueError(f"an evaluation set must not be named {TRAINING!r}")
        numbers = scalars(over_events(rows, summaries), lead=1)
        yield pd.DataFrame({"sequences": log.events, "set": name, **numbers})


# The fields in which they differ


def differing(folder: str, configs: Mapping[str, Any]) -> pd.DataFrame:
    """The config fields in which runs differ: a row for each run.

    Fields are named by dotted paths, such as `optimizer.learning_rate.rate`. A list is
    one value: its items as texts, joined. A path to a run in `folder` becomes the run's
    name. A column has numbers or booleans if possible, else texts.
    """
    # Only at the start of a path, as the folder may be part of another path.
    inside = re.compile(rf"(?<![^'\"]){re.escape(folder)}/")
    rows = [
        {
            path: inside.sub("", value) if isinstance(value, str) else value
            for path, value in _leaves(config)
        }
        for config in configs.values()
    ]
    fields = pd.DataFrame(rows, index=[*configs])
    found = {
        name: _of_one_type(values)
        for name, values in fields.items()
        if _differs(values)
    }
    return pd.DataFrame(found, index=fields.index)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a config by their dotted paths, without those that are null."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield path, "; ".join(map(_text, value))
    elif value is not None:
        yield path, value


def _differs(values: pd.Series) -> bool:
    """Whether a field has two values, or is missing in some runs.

    A `type` with the same value in all runs that have it tells nothing.
    """
    # Compared as JSON, where 1 and true differ.
    there = values.notna()
    missing = not there.all() and not str(values.name).endswith("type")
    return len({*map(json.dumps, values[there])}) + missing > 1


def _of_one_type(values: pd.Series) -> pd.Series:
    return values if _is_numeric(values) else values.map(_text).astype(str)


def _text(value: Any) -> str:
    """A value as text; empty for NaN, which stands for a missing one."""
    if isinstance(value, str):
        return value
    return "" if value != value else json.dumps(value)


def _is_numeric(values: pd.Series) -> bool:
    """Whether a column has numbers or booleans, not texts."""
    return pd.api.types.is_numeric_dtype(values)


def _write_hdf5(
    out: Path, table: pd.DataFrame, study: Mapping[str, Any], unfinished: list[str]
) -> None:
    """Writes a data set for each column, with its unit."""

    def fill(file: h5py.File) -> None:
        file.attrs["study"], file.attrs["scale"] = study["study"], study["scale"]
        file.attrs["columns"] = np.array([*table], _TEXT)
        file.attrs["unfinished"] = np.array(unfinished, _TEXT)
        for name, values in table.items():
            if _is_numeric(values):
                data = file.create_dataset(str(name), data=values.to_numpy())
            else:
                data = file.create_dataset(str(name), data=[*values], dtype=_TEXT)
            if name in table.attrs["units"]:
                data.attrs["units"] = table.attrs["units"][name]

    write_hdf5(out, fill)
