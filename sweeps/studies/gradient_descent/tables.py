"""Tables of the studies' numbers; `make eval_order` and `make eval_noise` write them.

    python -m sweeps.studies.gradient_descent.tables runs/order results_order.csv
    python -m sweeps.studies.gradient_descent.tables runs/noise results_noise.csv
    python -m sweeps.studies.gradient_descent.tables runs/layerwise FOLDER

The third writes `gd_metrics.json` and `layerwise_metrics.json` into the folder. `mse`
and `test_mse` are whole squared errors, twice a run's loss. `ood_alpha3` is divided by
the loss of predicting 0. `align_cos` and `align_l2` (of predictions, root mean square)
are against one step of descent with the best rate; `auroc` is of low influence.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import icl
from icl.cli import guarded
from icl.files import write_bytes
from icl.measures.descent import descent_cosine, descent_difference
from icl.measures.layer_losses import layer_losses
from icl.measures.noisy_pairs import influence_auroc
from icl.measures.out_of_range import ood_curve
from icl.runs import disk
from icl.tasks.regression import LinearRegression, NoisyValues, RandomPairs

from ...analysis import Study
from . import analysis


COLUMNS = (
    *("exp", "model", "ordering", "noise_mode", "p", "sigma", "placement", "seed"),
    *("test_mse", "align_cos", "align_l2", "auroc", "ood_alpha3"),
)
_SIZE = 2000  # Sequences for each row.


def rows(study: Study) -> Iterator[dict[str, Any]]:
    """A row for each run and each task it is judged on.

    Runs of the study `order` are judged in all orders, others on their training task.
    """
    for name in study:
        folder = study.path / name
        task = analysis.task_of(folder)
        tasks = {_order(task): task}
        if study.name == "order":
            tasks = {k: analysis.ordered(task, k) for k in analysis.ORDERS}
        for order, each in tasks.items():
            yield _described(folder, name, order, each) | _numbers(folder, each)


def layers(study: Study) -> tuple[list[dict], list[dict]]:
    """Errors by step of descent, and by layer of each run: means and standard errors.

    **Returns:** The contents of `gd_metrics.json` and of `layerwise_metrics.json`.
    """
    found, tasks = [], {}
    for name in study:
        folder = study.path / name
        task = analysis.task_of(folder)
        means, errors = analysis.layer_errors(folder)
        tasks[task] = max(tasks.get(task, 0), len(means) - 1)
        found.append(
            {"run": name, "layers": [*range(len(means))], "mse": means, "sem": errors}
        )
    descent = []
    for task, depth in tasks.items():
        means, errors = analysis.descent_errors(task, depth)
        settings = {"noise": task.noise, "context": task.context, "dim": task.dim}
        descent.append(
            {**settings, "steps": [*range(depth + 1)], "mse": means, "sem": errors}
        )
    return descent, found


def _described(
    folder: Path, name: str, order: str, task: LinearRegression
) -> dict[str, Any]:
    found = re.fullmatch(r"(.+)-seed-(\d+)", name)
    noise = task.pair_noise
    modes = {NoisyValues: "label_noise", RandomPairs: "random_pairs"}
    return {
        "exp": found[1] if found else name,
        "model": type(icl.load(folder).experiment.model).__name__,
        "ordering": order,
        "noise_mode": modes.get(type(noise), "none"),
        "p": 0.0 if noise is None else noise.probability,
        "sigma": noise.std if isinstance(noise, NoisyValues) else "",
        "placement": "mixed" if noise is None else noise.placement,
        "seed": found[2] if found else "",
    }


def _numbers(folder: Path, task: LinearRegression) -> dict[str, float]:
    rate = analysis.rate_of(task, 1)
    measures: dict[str, Any] = {
        "test_mse": layer_losses(),
        "align_cos": descent_cosine(1, rate),
        "align_l2": descent_difference(1, rate, power=2.0),
        "ood_alpha3": ood_curve((3.0,)),
    }
    if task.pair_noise is not None:
        measures["auroc"] = influence_auroc()
    found = analysis.measured(folder, measures, task, _SIZE)
    # Of the losses by layer, the last is the model's.
    last = {name: float(np.ravel(value)[-1]) for name, value in found.items()}
    return last | {"test_mse": 2 * last["test_mse"]}


def _order(task: LinearRegression) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(task.ordering).__name__).lower()


def main(arguments: list[str]) -> int:
    """Writes the table of a study; see above. Returns the command's status."""
    return guarded("tables", lambda: _write(arguments))


def _write(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    study, out = _read(arguments[0]), Path(arguments[1])
    if len(study.names) < study.planned:
        there = f"{len(study.names)} of {study.planned} runs are finished"
        print(f"tables: {there}; the table has only these", file=sys.stderr)
    if study.name == "layerwise":
        _check_place(out / "gd_metrics.json")
        descent, found = layers(study)
        files = {"gd_metrics.json": descent, "layerwise_metrics.json": found}
        for name, content in files.items():
            write_bytes(out / name, json.dumps(content, indent=2).encode())
        print(f"{', '.join(files)}: {out}")
        return 0
    _check_place(out)
    # Models without noise have no AUROC: its cells are empty.
    found = [dict.fromkeys(COLUMNS, "") | row for row in rows(study)]
    write_bytes(out, pd.DataFrame(found).to_csv(index=False, na_rep="nan").encode())
    print(f"{len(found)} rows: {out}")
    return 0


def _read(path: str) -> Study:
    """The study in a folder, checked to be one with a table and finished runs."""
    study = Study.read(path)
    if not study.planned:
        raise ValueError(f"{path} is not the folder of a study")
    if study.name not in ("order", "noise", "layerwise"):
        wanted = f"{path} must be of the study order, noise or layerwise"
        raise ValueError(f"{wanted}, got {study.name}")
    if not study.names:
        raise ValueError(f"{path} has no finished runs; train them first")
    return study


def _check_place(out: Path) -> None:
    """Makes the folder of a file, before the long computation of what is in it."""
    if out.is_dir():
        raise ValueError(f"{out} is a folder; name a file")
    with disk(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
