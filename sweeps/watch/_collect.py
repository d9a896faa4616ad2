"""`python -m sweeps collect`: what all runs of a study logged, as one tidy table."""

import csv
import dataclasses
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import tyro
from tqdm import tqdm

from icl.cli.options import CommandOptions, parse
from icl.config import from_json
from icl.files import check_writable, hdf5_kind, write_bytes, write_hdf5
from icl.plugins import made_with
from icl.protocols import Summary, TaskConfig
from icl.runs import is_run, logged_rows, open_log, Run
from icl.summaries import over_events, scalars

from ..folder import Folder
from ..plan import matching
from ..text import counted
from ._swept import column, swept, text


Summaries = Mapping[str, Summary | None]

TRAINING = "training"
"""The set of the training metrics: means over the steps since the last event."""
_MARK = "icl-opto collection"
_TEXT = h5py.string_dtype()


@dataclasses.dataclass(frozen=True)
class CollectOptions(CommandOptions):
    """Gather what all runs of a study logged in one table.

    It has a row for each run, evaluation set and event. The columns are the config
    fields in which runs differ, the sequences seen, and each metric.
    """

    USAGE: ClassVar[str] = "DIR [options]"
    EXAMPLE: ClassVar[str] = "python -m sweeps collect runs/induction --out all.csv"

    folder: tyro.conf.Positional[Path]
    """The study's folder."""
    out: Path | None = None
    """The file to write, .h5 or .csv; by default collected.h5 in the study's folder."""
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A pattern of run names, such as 'clamp-*'. May be repeated."""


def collect(arguments: list[str]) -> int:
    """Runs the command; returns its exit status, 1 if a run could not be read.

    **Raises:** `ValueError` if the folder holds no study, a pattern matches no run, the
    output would replace another file, or no run has logged anything.
    """
    options = parse(CollectOptions, arguments, "collect", program="python -m sweeps")
    folder = Folder(options.folder)
    study, configs = folder.read(), folder.configs
    out = options.out or folder.path / "collected.h5"
    write = _writer(out)
    runs = matching(options.only, configs)
    gathered = _gather(folder, configs, runs)
    for name in gathered.empty:
        print(f"{name} has logged nothing yet", file=sys.stderr)
    for problem in gathered.problems:
        print(problem, file=sys.stderr)
    columns = gathered.columns
    if not len(columns["run"]):
        raise ValueError(f"no run of {folder.path} has a log that can be read")
    unfinished = [run for run in runs if not folder.finished(run, configs[run])]
    attributes = {
        "kind": _MARK,
        "study": study["study"],
        "scale": study["scale"],
        "columns": np.array([*columns], _TEXT),
        "unfinished": np.array(unfinished, _TEXT),
    }
    write(out, columns, gathered.units, attributes)
    rows, names = columns["run"], {*columns["run"]}
    print(f"{counted(len(rows), 'row')} of {counted(len(names), 'run')}: {out}")
    return 1 if gathered.problems else 0


def collected(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """The columns of the table of a study's runs, with what they have logged so far.

    The columns are `run`, the config fields in which runs differ, `sequences`, `set`
    and the metrics. A metric is the summary of a set (`icl.summaries.scalars`: a metric
    by position has two columns); for the set `training` it is the mean over the steps
    since the last event. Missing values are NaN or empty texts. Warns of configs and
    logs that cannot be read.

    If a plug-in of the study fails or is gone, only the runs that need it are missing.

    **Raises:** `ValueError` if the folder holds no study.
    """
    study = Folder(folder)
    configs = study.configs
    gathered = _gather(study, configs, list(configs))
    for problem in gathered.problems:
        warnings.warn(problem, stacklevel=2)
    return gathered.columns


# What they logged


@dataclasses.dataclass(frozen=True)
class _Gathered:
    columns: dict[str, np.ndarray]
    units: dict[str, str]
    """The units of the columns, where known."""
    problems: list[str]
    """A line for each run whose config or log could not be read."""
    empty: list[str]
    """Runs that have logged nothing."""


# A run, one of its sets, the sequences seen at each event, and the metrics there.
_Block = tuple[str, str, np.ndarray, Mapping[str, np.ndarray]]


def _gather(folder: Folder, configs: Mapping[str, Any], runs: list[str]) -> _Gathered:
    study = folder.read()
    plugins = study.get("plugins", ())
    blocks: list[_Block] = []
    problems, empty = [], []
    loss_units: dict[str, str] = {}
    for run in tqdm(runs, desc="collecting", unit="run", disable=None, leave=False):
        file = folder.run(run) / "log.h5"
        try:
            if is_run(folder.run(run)):
                # A damaged config is reported: the planned one does not replace it.
                _ = Run(folder.run(run)).config
            with made_with(plugins):
                task = from_json(TaskConfig, configs[run]["task"])
        except ValueError as error:
            problems.append(f"{run} cannot be read: {error}")
            continue
        try:
            found = list(_blocks(file, task.summaries)) if file.exists() else []
        except ValueError as error:
            problems.append(str(error))
            continue
        blocks += [(run, *block) for block in found]
        empty += [] if found else [run]
        loss_units[run] = task.loss_unit
    columns = _columns(swept(Path(study["folder"]), configs), blocks)
    return _Gathered(columns, _units(blocks, loss_units), problems, empty)


def _columns(
    fields: Mapping[str, Mapping[str, Any]], blocks: list[_Block]
) -> dict[str, np.ndarray]:
    sizes = [len(sequences) for _, _, sequences, _ in blocks]
    names = list(dict.fromkeys(name for *_, metrics in blocks for name in metrics))

    def repeated(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, sizes)

    def joined(parts: Iterable[np.ndarray], dtype: type) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype), *parts])

    runs = [run for run, *_ in blocks]
    columns = {"run": repeated(text(runs))}
    columns |= {path: repeated(column(of, runs)) for path, of in fields.items()}
    columns["sequences"] = joined((block[2] for block in blocks), np.int64)
    columns["set"] = repeated(text(block[1] for block in blocks))
    for name in names:
        parts = (m.get(name, np.full(len(s), np.nan)) for _, _, s, m in blocks)
        columns[name] = joined(parts, np.float64)
    return columns


def _units(blocks: list[_Block], loss_units: Mapping[str, str]) -> dict[str, str]:
    """The units of columns; losses have one if the tasks of all runs have the same."""
    found: dict[str, set[str]] = {}
    for run, _, _, metrics in blocks:
        for name in metrics:
            if name == "loss" or name.endswith("_loss"):
                found.setdefault(name, set()).add(loss_units[run])
    same = {name: min(units) for name, units in found.items() if len(units) == 1}
    losses = {name: unit for name, unit in same.items() if unit}
    return {"sequences": "sequences seen", **losses}


def _blocks(
    file: Path, summaries: Summaries
) -> Iterator[tuple[str, np.ndarray, dict[str, np.ndarray]]]:
    """Each set of a log: its name, the sequences seen at each event, and the metrics.

    One array of the log is in memory at a time.

    **Raises:** `ValueError` if the log cannot be read.
    """
    try:
        with open_log(file) as log:
            yield from _read(log, summaries)
    except (
        OSError,
        KeyError,
        RuntimeError,
        AttributeError,
        TypeError,
        ValueError,
    ) as e:
        reason = " ".join(str(e).split())
        raise ValueError(f"{file} is not a readable log: {reason}") from None


def _read(
    log: Any, summaries: Summaries
) -> Iterator[tuple[str, np.ndarray, dict[str, np.ndarray]]]:
    events = np.asarray(log["eval/iter"][()], np.int64)
    steps = log["train/iter"][()]
    # No step comes before an event at 0, so that event has no row.
    ends = np.searchsorted(steps, events, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    some = ends > starts
    pairs = list(zip(starts[some], ends[some], strict=True))
    means = {
        name: np.array([rows[a:b].mean(dtype=np.float64) for a, b in pairs])
        for name, rows in _rows(log["train"], len(steps))
    }
    if means and pairs:
        yield TRAINING, events[some], means
    for name, metrics in log["eval"].items():
        if name == TRAINING:
            raise ValueError(f"an evaluation set must not be named {TRAINING!r}")
        if name != "iter" and len(events):
            yield (
                name,
                events,
                scalars(_summed(metrics, len(events), summaries), lead=1),
            )


def _summed(group: Any, count: int, summaries: Summaries) -> dict[str, np.ndarray]:
    """The summaries of a set at each event."""
    numbers: dict[str, np.ndarray] = {}
    for name, rows in _rows(group, count):
        if name not in summaries:
            numbers |= over_events({name: rows}, {})
    if any(summary is not None for summary in summaries.values()):
        rows = dict(_rows(group, count))
        numbers |= over_events(rows, {**dict.fromkeys(rows), **summaries})
    return numbers


def _rows(group: Any, count: int) -> Iterator[tuple[str, np.ndarray]]:
    for name, data in group.items():
        if name != "iter":
            if len(data) != count:
                raise ValueError(f"{data.name} has {len(data)} rows, not {count}")
            yield name, logged_rows(data)


# The file


_Writer = Callable[
    [Path, Mapping[str, np.ndarray], Mapping[str, str], Mapping[str, Any]], None
]


def _writer(out: Path) -> _Writer:
    """The writer for a file; raises `ValueError` if it would replace another file."""
    kinds = {".h5": (_is_hdf5, _write_hdf5), ".csv": (_is_csv, _write_csv)}
    if out.suffix not in kinds:
        raise ValueError(f"--out: {out} must end in .h5 or .csv")
    is_ours, write = kinds[out.suffix]
    if not out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {out.parent}")
    check_writable(out.parent)
    if out.exists() and not is_ours(out):
        raise ValueError(f"--out: {out} exists and is not a table of this command")
    return write


def _is_hdf5(file: Path) -> bool:
    return hdf5_kind(file) == _MARK


def _is_csv(file: Path) -> bool:
    try:
        with open(file, "rb") as stream:
            return stream.read(4) == b"run,"
    except OSError:
        return False


def _write_hdf5(
    out: Path,
    columns: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    attributes: Mapping[str, Any],
) -> None:
    def fill(file: h5py.File) -> None:
        file.attrs.update(attributes)
        for name, values in columns.items():
            dtype = _TEXT if values.dtype == object else values.dtype
            data = file.create_dataset(name, data=values, dtype=dtype)
            if name in units:
                data.attrs["units"] = units[name]

    write_hdf5(out, fill)


def _write_csv(
    out: Path,
    columns: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    attributes: Mapping[str, Any],
) -> None:
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(columns)
    # Python numbers are written without loss.
    writer.writerows(zip(*(x.tolist() for x in columns.values()), strict=True))
    write_bytes(out, content.getvalue().encode())
