"""`icl ablate` and `icl patch`: interventions on a run's model.

Each writes a table, `NAME.csv`, and a figure, `NAME.png` and `NAME.pdf`.
"""

import copy
import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import numpy as np
import tyro
from matplotlib.figure import Figure

import opto

from ..batches import example_of, size_of
from ..edits.ablation import ablate_heads, find_heads, HeadAblations
from ..edits.grafts import read_edits
from ..edits.patching import evidence_label, grid_of, patch_clean, Patched, sources
from ..edits.tokens import token_names
from ..experiments import load, Trained
from ..experiments.sets import unknown
from ..plots import change_bars, change_maps, recovered_maps
from ..text import aligned
from .options import parse
from .results import free_folder, write_results


@dataclasses.dataclass(frozen=True)
class EditOptions:
    """Which model, under which edits, on which sequences."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    checkpoint: int = -1
    """Sequences seen at the checkpoint; -1 is the last."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An evaluation set; may be repeated. The default is all of them."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit in force besides, such as "Zero('blocks.1.attn.z', head=3)"; may be
    repeated."""
    training_edits: bool = True
    """Whether the edits that the run was trained under are in force too."""
    out: Path | None = None
    """The folder of the results, made if need be; the default is one in the run's."""


@dataclasses.dataclass(frozen=True)
class AblateOptions(EditOptions):
    """Ablate heads, each by itself and all of them together.

    Writes heads.csv and a figure, and prints the heads that matter most.
    """

    heads: str = "all"
    """Which heads, as layer:head from 0, such as "1:3 1:7"; or all."""
    site: str = "blocks.*.attn.z"
    """What of a head is ablated."""
    ablation: Literal["zero", "mean", "resample"] = "zero"
    """Set to zero, to the mean over the set's sequences, or to another sequence's."""


@dataclasses.dataclass(frozen=True)
class PatchOptions(EditOptions):
    """Patch activations: what of the right answer comes back with each of them?

    Values of the run on the evaluation sequences (clean) are put into the run on
    sequences with another answer (the source), place by place. Measured is how strongly
    the clean answer is given: the logit of the clean sequence's label less the best
    other one of its context, or, where there are no labels, minus the loss. Writes
    patch.csv and a figure, and prints the places where most comes back.
    """

    site: str = "blocks.*.resid_pre"
    """What is patched."""
    over: tuple[str, ...] = ("layer", "pos")
    """The axes of the site whose indices are patched one by one, and layer; up to
    three."""
    source: str = ""
    """What has another answer: labels-swapped, the same sequences with the query's
    label and another in their context exchanged; exemplars-swapped; or resample, other
    sequences of the set. The default is the first that the task has."""


KINDS = {"zero": opto.Zero, "mean": opto.Mean, "resample": opto.Resample}
ABLATED = ("set", "metric", "layer", "head", "baseline", "ablated", "difference")
PATCHED = ("patched", "source", "clean", "recovered")


def ablate(arguments: list[str]) -> None:
    """The command `icl ablate`."""
    options = parse(AblateOptions, arguments, "ablate")
    out = free_folder(options.out or options.run / "ablate", "heads", ABLATED)
    trained, edits, table = _opened(options)
    heads = find_heads(table, options.site, options.heads)
    done = {
        name: ablate_heads(
            trained.model,
            trained.task,
            batch,
            heads,
            site=options.site,
            kind=KINDS[options.ablation],
            edits=edits,
        )
        for name, batch in _sets(trained, options.set).items()
    }
    every = heads == find_heads(table, options.site, "all")
    shown = _shown(trained, next(iter(done.values())))
    figure = _head_figure(done, shown, every)
    files = write_results(out, "heads", _head_rows(done), figure)
    for name, found in done.items():
        size = size_of(trained.evaluations[name])
        print(f"{name}: {size} sequences, {options.site} ablated ({options.ablation})")
        print(_head_table(found, [*shown]))
    print(files)


def patch(arguments: list[str]) -> None:
    """The command `icl patch`."""
    options = parse(PatchOptions, arguments, "patch")
    out = free_folder(options.out or options.run / "patch", "patch", PATCHED)
    if not 1 <= len(options.over) <= 3:
        raise ValueError(f"over names one to three axes, got {len(options.over)}")
    trained, edits, table = _opened(options)
    at = opto.At(options.site).each(*options.over)
    at.expand(table)
    known = sources(trained.task)
    chosen = options.source or next(iter(known))
    if chosen not in known:
        raise ValueError(unknown("source", chosen, known))
    done = {}
    for name, batch in _sets(trained, options.set).items():
        try:
            pair = batch, known[chosen](batch)
            done[name] = patch_clean(
                trained.model, trained.task, *pair, at=at, edits=edits
            )
        except ValueError as error:
            raise ValueError(f"set {name!r}: {error}") from None
    shape = next(iter(done.values())).patched.shape
    grid = grid_of(table, options.site, options.over, shape)
    ticks = _ticks(trained, options.over, grid)
    recovered = {name: found.recovered for name, found in done.items()}
    label = f"recovered share of the\n{evidence_label(trained.task)}"
    figure = recovered_maps(recovered, options.over, ticks, label=label)
    files = write_results(out, "patch", _patch_rows(done, options.over, grid), figure)
    for name, found in done.items():
        size = size_of(trained.evaluations[name])
        print(f"{name}: {size} sequences, clean {options.site} into {chosen}")
        print(_patch_table(found, options.over, ticks, evidence_label(trained.task)))
    print(files)


def _opened(
    options: EditOptions,
) -> tuple[Trained, tuple[opto.AbstractEdit, ...], opto.Sites]:
    trained = load(options.run, options.checkpoint)
    own = trained.edits if options.training_edits else ()
    edits = (*own, *read_edits(options.edit))
    task, example = trained.task, example_of(trained.task)
    # Checks the edits without a computation.
    forward = opto.lift(task.forward)
    eqx.filter_eval_shape(forward, trained.model, example, edits=edits)
    return trained, edits, opto.sites(task.forward, trained.model, example)


def _sets(trained: Trained, names: Sequence[str]) -> dict[str, Any]:
    """The evaluation sets of some names, or all."""
    known = trained.evaluations
    if not known:
        raise ValueError(f"{trained.run.path} has no evaluation sets")
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"sets: {[*known]}"
            raise ValueError(f"no evaluation set {name!r}; {hint}")
    return {name: known[name] for name in known if not names or name in names}


def _head_rows(done: Mapping[str, HeadAblations]) -> Iterator[tuple[Any, ...]]:
    yield ABLATED
    for name, found in done.items():
        names: list[tuple[Any, Any]] = [*found.heads, ("all", "all")]
        for k, metric in enumerate(found.metrics):
            base, values = found.baseline[k], [*found.each[:, k], found.together[k]]
            with np.errstate(invalid="ignore"):  # Losses that are always infinite.
                changes = values - base
            for pair, *row in zip(names, values, changes, strict=True):
                yield name, metric, *pair, base, *row


def _shown(trained: Trained, found: HeadAblations) -> dict[str, str]:
    """The metrics that tables and figures show, and what a change in them is called."""
    task = trained.experiment.task
    names = ["accuracy", *(n for n in task.summaries if n != "accuracy"), "loss"]
    unit = f" ({task.loss_unit})" if task.loss_unit else ""
    return {
        name: f"change in {name.replace('_', ' ')}{unit if name == 'loss' else ''}"
        for name in names
        if name in found.metrics
    }


def _head_table(found: HeadAblations, metrics: Sequence[str], most: int = 5) -> str:
    """The heads whose ablation changes the loss most, and all together."""
    columns = {metric: found.of(metric) for metric in metrics}
    base, each, _ = columns["loss"]
    order = sorted(found.heads, key=lambda head: -abs(each[head] - base))
    whole = f"all {len(order)} together"
    rows = [["", *metrics], ["nothing", *(f"{c[0]:.4f}" for c in columns.values())]]
    for layer, head in order[:most]:
        changes = (each[layer, head] - base for base, each, _ in columns.values())
        rows.append([f"{layer}:{head}", *(f"{x:+.4f}" for x in changes)])
    rows.append([whole, *(f"{end - base:+.4f}" for base, _, end in columns.values())])
    return _lines(rows)


def _head_figure(
    done: Mapping[str, HeadAblations], shown: Mapping[str, str], every: bool
) -> Figure:
    """Maps of layers by heads if these are all that there are, otherwise bars."""
    heads = next(iter(done.values())).heads
    maps: dict[str, dict[str, np.ndarray]] = {label: {} for label in shown.values()}
    bars, together = copy.deepcopy(maps), {label: {} for label in shown.values()}
    for name, found in done.items():
        for metric, label in shown.items():
            base, each, whole = found.of(metric)
            change = np.full(1 + np.max(heads, axis=0), np.nan)
            for head, value in each.items():
                change[head] = value - base
            maps[label][name], together[label][name] = change, whole - base
            bars[label][name] = np.array([*each.values(), whole]) - base
    if every:
        # Red is worse.
        colours = {x: "RdBu_r" if m == "loss" else "RdBu" for m, x in shown.items()}
        return change_maps(maps, together, colours=colours)
    names = [f"{layer}:{head}" for layer, head in heads]
    return change_bars(bars, [*names, "all"])


def _patch_rows(
    done: Mapping[str, Patched], axes: Sequence[str], grid: Sequence[Sequence[int]]
) -> Iterator[tuple[Any, ...]]:
    yield ("set", *axes, *PATCHED)
    for name, found in done.items():
        recovered = found.recovered
        for index, point in zip(
            np.ndindex(found.patched.shape), itertools.product(*grid), strict=True
        ):
            if not np.isnan(found.patched[index]):  # A head that a layer lacks.
                ends = found.source, found.clean
                yield name, *point, found.patched[index], *ends, recovered[index]


def _patch_table(
    found: Patched,
    axes: Sequence[str],
    ticks: Sequence[Sequence[str]],
    label: str,
    most: int = 5,
) -> str:
    """The places where most comes back."""
    size = np.nan_to_num(np.abs(found.recovered), nan=-1.0)
    rows = [[*axes, "patched", "recovered"]]
    for flat in np.argsort(-size, axis=None, kind="stable")[:most]:
        index = np.unravel_index(flat, size.shape)
        place = [names[int(i)] for names, i in zip(ticks, index, strict=True)]
        numbers = found.patched[index], found.recovered[index]
        rows.append([*place, *(f"{x:.3f}" for x in numbers)])
    ends = f"{label} {found.source:.3f} in the source, {found.clean:.3f} clean"
    return f"{ends}\n{_lines(rows)}"


def _ticks(
    trained: Trained, axes: Sequence[str], grid: Sequence[Sequence[int]]
) -> list[list[str]]:
    """The name of each index; of positions, what token stands there."""
    batch = next(iter(trained.evaluations.values()))
    tokens = token_names(trained.model, trained.task, batch)
    seen = {"pos", "seq"} if tokens else set()
    return [
        [tokens[i] for i in indices] if axis in seen else [*map(str, indices)]
        for axis, indices in zip(axes, grid, strict=True)
    ]


def _lines(rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal: names to the left, numbers to the right."""
    align = "l" + "r" * (len(rows[0]) - 1)
    return "".join(f"  {line}\n" for line in aligned(rows, align))
