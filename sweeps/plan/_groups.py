"""Groups runs by program, and packs groups into jobs.

Experiments that differ only in numbers are one program.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

import opto
from icl import Experiment
from icl.config import to_json
from icl.edits.grafts import parse_edit, with_models

from ..folder import Job
from ._needs import levels


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs of one program that may start at the same time."""

    runs: tuple[str, ...]
    experiment: Experiment
    """The experiment of the first run; the programs of the others cost the same."""
    own_data: bool
    """Whether the runs have different data of one shape, rather than the same data."""


def groups(
    experiments: Mapping[str, Experiment],
    needed: Mapping[str, tuple[str, ...]],
    folder: Path,
) -> list[Group]:
    """Groups the runs by program; a group comes after the groups that it needs.

    **Arguments:**

    - `needed`: The runs that each run needs; all are in `experiments`.
    """
    level = levels({name: needed[name] for name in experiments})
    others = by_path(experiments, folder)
    together: dict[Hashable, list[str]] = defaultdict(list)
    for name, experiment in experiments.items():
        together[level[name], program(experiment, others)].append(name)
    found = [
        Group(
            tuple(names),
            experiments[names[0]],
            len({experiments[name].data for name in names}) > 1,
        )
        for names in together.values()
    ]
    return sorted(found, key=lambda group: level[group.runs[0]])


def by_path(
    experiments: Mapping[str, Experiment], folder: Path
) -> dict[str, Experiment]:
    """The experiments by the absolute paths of their run folders."""
    return {str(folder / name): e for name, e in experiments.items()}


def pack(
    groups: Sequence[Group],
    most: Callable[[Group], int],
    devices: int,
    kept: Sequence[Job],
) -> list[Job]:
    """Divides groups into jobs of about equal size; their needs are filled in later.

    A job has as many members on each of its devices. What is left over is a job of its
    own: a lone run takes all cores, but beside others it would leave cores idle.

    **Arguments:**

    - `most`: How many members of a group fit in one job.
    - `devices`: How many devices a job may make of a CPU's cores.
    - `kept`: Earlier jobs, whose names are taken.
    """
    jobs: list[Job] = []
    first = 1 + max((int(job.name) for job in kept), default=-1)
    for group in groups:
        for runs in _chunks(group.runs, most(group), devices):
            name = f"{first + len(jobs):03d}"
            jobs.append(Job(name, runs, (), devices))
    return jobs


def _chunks(runs: tuple[str, ...], most: int, devices: int) -> list[tuple[str, ...]]:
    """Chunks of about equal size, a multiple of the devices; then what is left over."""
    unit = devices if devices <= most else 1
    units = len(runs) // unit
    count = math.ceil(units / (most // unit))
    edges = [units * k // count * unit for k in range(count)]
    edges += [units * unit, len(runs)]
    return [runs[a:b] for a, b in zip(edges, edges[1:], strict=False) if a < b]


def program(experiment: Experiment, others: Mapping[str, Experiment]) -> Hashable:
    """A key that two experiments share exactly if they can train together.

    It leaves out seeds, the numbers of the optimizer, the arrays of edits, and which
    run the experiment starts from, grafts from or measures heads on.

    **Arguments:**

    - `others`: Experiments by the absolute path of their run folders. They tell the
        shapes of grafted models that do not exist yet.
    """
    config = to_json(experiment.with_any_heads())
    for field in ("init_seed", "train_seed", "eval_seed", "start"):
        del config[field]
    if config["data"] is not None:
        config["data"].pop("seed", None)
    config["optimizer"] = _without_numbers(config["optimizer"])
    texts = config.pop("edits")
    return _frozen(config), tuple(_shape(parse_edit(text), others) for text in texts)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_numbers(item) for name, item in value.items()}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "a number" if number else value


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(sorted((name, _frozen(item)) for name, item in value.items()))
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return value


def _shape(
    edit: opto.toolkit.AbstractEdit, others: Mapping[str, Experiment]
) -> Hashable:
    """The structure of an edit, and the shapes of its arrays."""
    grafted: list[Hashable] = []

    def note(graft: opto.Graft) -> Any:
        other = others.get(str(graft.source))
        if other is None:
            grafted.append(graft.source)
        else:
            grafted.append((program(other, others), _repeated(graft, other)))
        return _any_model

    (bare,) = with_models((edit,), note)
    arrays, static = eqx.partition(bare, eqx.is_array)
    shapes = tuple((x.shape, str(x.dtype)) for x in jax.tree.leaves(arrays))
    rest = tuple(map(repr, jax.tree.leaves(static)))
    return jax.tree.structure(bare), shapes, rest, tuple(grafted)


def _repeated(graft: opto.Graft, other: Experiment) -> bool:
    """Whether a graft's edits begin with the edits of the other run's training.

    If so, loading the graft does not add those edits again.
    """
    own = [parse_edit(text).text() for text in other.with_any_heads().edits]
    return [edit.text() for edit in graft.edits[: len(own)]] == own


def _any_model() -> None:
    """Stands for a model that does not exist yet."""
