"""`icl ablate`: a run's model without each of its heads.

It writes a table, `heads.csv`, and a figure, `heads.png` and `heads.pdf`.
"""

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TYPE_CHECKING

import numpy as np

import opto

from ..text import as_text
from .options import parse, ProbeOptions
from .results import free_folder, indented, note_undefined, write_results


if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..edits.ablation import HeadAblations
    from ..experiments import Trained


COLUMNS = ("set", "metric", "layer", "head", "baseline", "ablated", "difference")


@dataclasses.dataclass(frozen=True)
class AblateOptions(ProbeOptions):
    """Ablate each head by itself, and all of them together.

    Writes heads.csv and a figure, and prints the heads whose ablation changes the loss
    most.
    """

    EXAMPLE: ClassVar[str] = 'icl ablate runs/demo --heads "1:0 1:3"'

    heads: str = "all"
    """The heads, each written layer:head and counted from 0, such as "1:3 1:7"; or
    all."""
    site: str = "blocks.*.attn.z"
    """The site to ablate, a value of each head."""
    ablation: Literal["zero", "mean", "resample"] = "zero"
    """The new value: zero, the mean over the set's sequences, or the value in another
    sequence of the set."""


def ablate(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(AblateOptions, arguments, "ablate")
    from ..batches import size_of
    from ..edits.ablation import ablate_heads, find_heads
    from ..experiments.sets import find_sets
    from .probe import opened

    kinds = {"zero": opto.Zero, "mean": opto.Mean, "resample": opto.Resample}
    out = free_folder(options.out or options.run / "ablate", "heads", COLUMNS)
    trained, edits, table = opened(options)
    sets = find_sets(trained, options.on)
    heads = find_heads(table, options.site, options.heads)
    done = {
        name: ablate_heads(
            trained.model,
            trained.task,
            batch,
            heads,
            summaries=trained.summaries,
            site=options.site,
            kind=kinds[options.ablation],
            edits=edits,
        )
        for name, batch in sets.items()
    }
    every = heads == find_heads(table, options.site, "all")
    shown = _shown(trained, next(iter(done.values())))
    figure = _figure(done, shown, every)
    files = write_results(out, "heads", _rows(done), figure)
    for name, ablations in done.items():
        size = size_of(sets[name])
        print(f"{name}: {size} sequences, {options.site} ablated ({options.ablation})")
        print(_table(ablations, [*shown]))
    print(files)
    note_undefined("ablate", {n: _values(x) for n, x in done.items()}, "runs")


def _values(done: "HeadAblations") -> dict[str, np.ndarray]:
    """By metric: without ablation, with each head ablated, and with all."""
    every = np.vstack([done.baseline, done.each, done.together])
    return dict(zip(done.metrics, every.T, strict=True))


def _rows(done: "Mapping[str, HeadAblations]") -> Iterator[tuple[Any, ...]]:
    yield COLUMNS
    for name, ablations in done.items():
        names: list[tuple[Any, Any]] = [*ablations.heads, ("all", "all")]
        for k, metric in enumerate(ablations.metrics):
            base, values = (
                ablations.baseline[k],
                [*ablations.each[:, k], ablations.together[k]],
            )
            with np.errstate(invalid="ignore"):  # Losses that are always infinite.
                changes = values - base
            for pair, *row in zip(names, values, changes, strict=True):
                yield name, metric, *pair, base, *row


def _shown(trained: "Trained", done: "HeadAblations") -> dict[str, str]:
    """The metrics of tables and figures, and the name of a change in each."""
    task = trained.experiment.task
    names = ["accuracy", *(n for n in trained.summaries if n != "accuracy"), "loss"]
    unit = f" ({task.loss_unit})" if task.loss_unit else ""
    return {
        name: f"change in {name.replace('_', ' ')}{unit if name == 'loss' else ''}"
        for name in names
        if name in done.metrics
    }


def _table(done: "HeadAblations", metrics: Sequence[str], most: int = 5) -> str:
    """The heads whose ablation changes the loss most, and all heads together."""
    columns = {metric: done.of(metric) for metric in metrics}
    base, each, _ = columns["loss"]
    order = sorted(done.heads, key=lambda head: -abs(each[head] - base))
    whole = f"all {len(order)} together"
    rows = [["", *metrics], ["nothing", *(as_text(c[0]) for c in columns.values())]]
    for layer, head in order[:most]:
        changes = (each[layer, head] - base for base, each, _ in columns.values())
        rows.append([f"{layer}:{head}", *(as_text(x, "+.4f") for x in changes)])
    changes = (as_text(end - base, "+.4f") for base, _, end in columns.values())
    rows.append([whole, *changes])
    return indented(rows)


def _figure(
    done: "Mapping[str, HeadAblations]", shown: Mapping[str, str], every: bool
) -> "Figure":
    """Maps of layers by heads if these are all of the model's heads, otherwise bars."""
    from ..plots import bars, change_maps

    heads = next(iter(done.values())).heads
    maps: dict[str, dict[str, np.ndarray]] = {label: {} for label in shown.values()}
    heights, together = copy.deepcopy(maps), {label: {} for label in shown.values()}
    for name, ablations in done.items():
        for metric, label in shown.items():
            base, each, whole = ablations.of(metric)
            change = np.full(1 + np.max(heads, axis=0), np.nan)
            for head, value in each.items():
                change[head] = value - base
            maps[label][name], together[label][name] = change, whole - base
            change = np.array([*each.values(), whole]) - base
            heights[label][name.replace("_", " ")] = change
    if every:
        # Red is worse.
        colours = {x: "RdBu_r" if m == "loss" else "RdBu" for m, x in shown.items()}
        return change_maps(maps, together, colours=colours)
    names = [f"{layer}:{head}" for layer, head in heads]
    return bars(heights, [*names, "all"], of="head ablated", by="set", line=0.0)
