"""`icl patch`: which activations carry a run's answers.

It writes a table, `patch.csv`, and a figure, `patch.png` and `patch.pdf`.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TYPE_CHECKING

import numpy as np

import opto
from opto.hints import did_you_mean

from ..text import as_text
from .options import parse, ProbeOptions
from .results import free_folder, indented, write_results


if TYPE_CHECKING:
    from ..edits.patching import Patched
    from ..experiments import Trained


TOKEN = "token"
"""Positions, grouped by the part of their tokens in the answer."""
COLUMNS = ("patched", "corrupted", "clean", "recovered")
"""The last columns of the table; before them are the set and the axes."""


@dataclasses.dataclass(frozen=True)
class PatchOptions(ProbeOptions):
    """Patch activations: which of them bring back the right answer?

    The model runs on the evaluation sequences (clean) and on sequences with another
    answer (corrupted). The command copies activations of the clean run into the
    corrupted run, one place at a time, and measures the evidence for the clean answer:
    its logit minus the largest logit of another label in the context. For tasks without
    labels it is the negative loss. Writes patch.csv and a figure, and prints the places
    with the largest effect.
    """

    EXAMPLE: ClassVar[str] = "icl patch runs/demo --over layer token"

    site: str = "blocks.*.resid_pre"
    """The site to patch."""
    over: tuple[str, ...] | None = None
    """One to three axes. Each combination of their indices is patched by itself. There
    are layer, the axes of the site, and token. token groups positions by the role of
    their token: right label, other label, and so on. The default is layer token, or
    layer pos if the task's tokens have no roles."""
    corruption: str = ""
    """How to make the corrupted sequences. labels-swapped: exchange the query's
    label and another label in the context. exemplars-swapped: exchange the exemplars
    instead. resample: take other sequences of the set. The default is the first of them
    that the task has."""


def patch(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(PatchOptions, arguments, "patch")
    from ..batches import size_of
    from ..edits.patching import evidence_label, grid_of, patch_clean
    from ..edits.tokens import answer_tokens
    from ..experiments.sets import find_sets
    from ..plots import recovered_maps
    from .probe import opened

    out = free_folder(options.out or options.run / "patch", "patch", COLUMNS)
    if options.over is not None and not 1 <= len(options.over) <= 3:
        raise ValueError(f"over names one to three axes, got {len(options.over)}")
    trained, edits, table = opened(options)
    sets = find_sets(trained, options.on)
    grouping = options.over is None or TOKEN in options.over
    tokens = {
        name: answer_tokens(trained.model, trained.task, batch) if grouping else []
        for name, batch in sets.items()
    }
    over = _axes(options.over, tokens)
    at = opto.At(options.site).each(*("pos" if x == TOKEN else x for x in over))
    at.expand(table)
    chosen, corrupt = _corruption(trained.task, options.corruption)
    done, grids, ticks = {}, {}, {}
    for name, batch in sets.items():
        try:
            pair = batch, corrupt(batch)
            done[name] = patch_clean(
                trained.model, trained.task, *pair, at=at, edits=edits
            )
        except ValueError as error:
            raise ValueError(f"set {name!r}: {error}") from None
        # Sets may differ in how long their sequences are.
        shape = done[name].patched.shape[:-1]
        grid: list[list[Any]] = [*grid_of(table, options.site, over, shape)]
        ticks[name] = _ticks(trained, batch, over, grid)
        if TOKEN in over:
            axis = over.index(TOKEN)
            done[name], known = done[name].by_token(axis, tokens[name])
            grid[axis] = ticks[name][axis] = known
        else:
            done[name] = done[name].mean()
        grids[name] = grid
    recovered = {name: patched.recovered for name, patched in done.items()}
    what = evidence_label(trained.task)
    label = f"recovered share of the {what}"
    figure = recovered_maps(recovered, over, ticks, label=label)
    files = write_results(out, "patch", _rows(done, over, grids), figure)
    for name, patched in done.items():
        size = size_of(sets[name])
        print(f"{name}: {size} sequences, clean {options.site} patched into {chosen}")
        print(_table(patched, over, ticks[name], what))
    print(files)


def _axes(
    over: Sequence[str] | None, tokens: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[str, ...]:
    """The axes that were asked for; the default is layers by tokens or positions."""
    known = all(tokens.values())
    if over is None:
        return "layer", TOKEN if known else "pos"
    if TOKEN in over and not known:
        unknown = next(name for name, roles in tokens.items() if not roles)
        why = f"the tokens of {unknown!r} have no part in an answer; use pos"
        raise ValueError(f"over: {why}")
    return tuple(over)


def _corruption(task: Any, name: str) -> tuple[str, Callable[[Any], Any]]:
    """The corruption with the given name; the default is the first of the task's."""
    from ..edits.patching import corruptions

    known = corruptions(task)
    name = name or next(iter(known))
    if name not in known:
        hint = did_you_mean(name, known, cutoff=0.4) or f"; known: {', '.join(known)}"
        raise ValueError(f"no corruption {name!r}{hint}")
    return name, known[name]


def _rows(
    done: "Mapping[str, Patched]",
    axes: Sequence[str],
    grids: Mapping[str, Sequence[Sequence[Any]]],
) -> Iterator[tuple[Any, ...]]:
    yield ("set", *axes, *COLUMNS)
    for name, patched in done.items():
        recovered = patched.recovered
        for index, point in zip(
            np.ndindex(patched.patched.shape),
            itertools.product(*grids[name]),
            strict=True,
        ):
            if not np.isnan(patched.patched[index]):  # A head that a layer lacks.
                ends = patched.corrupted, patched.clean
                yield name, *point, patched.patched[index], *ends, recovered[index]


def _table(
    patched: "Patched",
    axes: Sequence[str],
    ticks: Sequence[Sequence[str]],
    label: str,
    most: int = 5,
) -> str:
    """The places with the largest effect."""
    size = np.nan_to_num(np.abs(patched.recovered), nan=-1.0)
    rows = [[*axes, "patched", "recovered"]]
    for flat in np.argsort(-size, axis=None, kind="stable")[:most]:
        index = np.unravel_index(flat, size.shape)
        place = [names[int(i)] for names, i in zip(ticks, index, strict=True)]
        numbers = patched.patched[index], patched.recovered[index]
        rows.append([*place, *(as_text(float(x), ".3f") for x in numbers)])
    ends = f"{label} {patched.corrupted:.3f} corrupted, {patched.clean:.3f} clean"
    return f"{ends}\n{indented(rows)}"


def _ticks(
    trained: "Trained",
    batch: Any,
    axes: Sequence[str],
    grid: Sequence[Sequence[int]],
) -> list[list[str]]:
    """The names of each axis's indices; a position is named by its token."""
    from ..edits.tokens import token_names

    positions = {"pos", "seq"} & {*axes}
    tokens = token_names(trained.model, trained.task, batch) if positions else []
    return [
        [tokens[i] for i in indices]
        if tokens and axis in positions
        else [*map(str, indices)]
        for axis, indices in zip(axes, grid, strict=True)
    ]
