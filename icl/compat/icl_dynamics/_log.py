"""The log of an icl-dynamics run, converted to ours."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from ...files import open_hdf5
from ...runs import Log


# Metrics with the same definition as one in `icl.tasks.classification`.
_NAMES = {
    "acc": "accuracy",
    "prob": "probability",
    "in_context_acc": "in_context_accuracy",
    "in_context_prob": "in_context_probability",
    "out_context_acc": "out_of_context_accuracy",
    "out_context_prob": "out_of_context_probability",
    "use_context_prob": "context_probability",
}


def read_log(file: Path, batch_size: int) -> Log:
    """Reads `log.h5`; a run without one has an empty log.

    A metric with the meaning of one of ours gets our name; the others keep theirs. A
    run that was restarted in its folder logged some points twice: the last one counts.
    Steps that were not logged are NaN.

    **Raises:** `ValueError` if the file cannot be read, or its rows do not match.
    """
    log = Log()
    if not file.exists():
        return log
    try:
        with open_hdf5(file) as opened:
            _add_steps(log, opened, batch_size)
            _add_evaluations(log, opened)
    except (OSError, RuntimeError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{file} is not a log of icl-dynamics: {reason}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return log


def _add_steps(log: Log, file: h5py.File, batch_size: int) -> None:
    if "train_iter" not in file:
        return
    # Sequences seen after each step; if the run began elsewhere, they may be odd.
    ends = _array(file, "train_iter")
    steps, rows = _last(np.ceil(ends / batch_size).astype(int))
    if len(steps) and steps[0] < 1:
        raise ValueError(f"train_iter must be positive, got {ends.min()}")
    columns = {}
    for name in map(str, file):
        if name.startswith("train_") and name != "train_iter":
            values = _array(file, name)
            _check_rows(name, values, ends, "steps")
            column = np.full(steps.max(initial=0), np.nan, np.float32)
            column[steps - 1] = values[rows]
            columns[name.removeprefix("train_")] = column
    log.add_steps(columns)


def _add_evaluations(log: Log, file: h5py.File) -> None:
    if "eval_iter" not in file:
        return
    seen = _array(file, "eval_iter")
    events, rows = _last(seen)
    sets = {}
    for name, metric, values in _metrics(file):
        _check_rows(f"{name}/{metric}", values, seen, "evaluations")
        of_set = sets.setdefault(name, {})
        of_set[_NAMES.get(metric, metric)] = values[rows].astype(np.float32)
    for index, event in enumerate(events):
        row = {
            name: {metric: values[index] for metric, values in metrics.items()}
            for name, metrics in sets.items()
        }
        log.add_evaluation(int(event), row)


def _metrics(file: h5py.File) -> Iterator[tuple[str, str, np.ndarray]]:
    for name, group in file.items():
        if isinstance(group, h5py.Group):
            for metric in map(str, group):
                yield str(name), metric, _array(group, metric)


def _array(group: h5py.Group, name: str) -> np.ndarray:
    data = group[name]
    if not isinstance(data, h5py.Dataset):
        raise KeyError(f"{name} is not a dataset")
    return np.asarray(data[()])


def _last(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers, ascending, and the last place of each."""
    unique, index = np.unique(numbers[::-1], return_index=True)
    return unique, len(numbers) - 1 - index


def _check_rows(name: str, values: np.ndarray, points: np.ndarray, what: str) -> None:
    if len(values) != len(points):
        raise ValueError(f"{name} has {len(values)} rows for {len(points)} {what}")
