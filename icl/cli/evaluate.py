"""`icl eval`: a run's metrics on its evaluation sets."""

import dataclasses

import jax

from ..experiments import evaluate as evaluated, load
from ..experiments.sets import find_sets
from ..summaries import scalars, summarise
from ..text import aligned, number
from .options import parse, SetOptions


@dataclasses.dataclass(frozen=True)
class EvalOptions(SetOptions):
    """Print the metrics of a run's model on its evaluation sets."""


def evaluate(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a run without evaluation sets, and for a set, a
    checkpoint or an edit that cannot be.
    """
    options = parse(EvalOptions, arguments, "eval")
    trained = load(options.run, options.checkpoint)
    edits = options.in_force(trained)
    table = {}
    for name, batch in find_sets(trained, options.set).items():
        rows = evaluated(trained.model, trained.task, batch, edits=edits)
        table[name] = scalars(summarise(jax.device_get(rows), trained.summaries))
    rows = [["", *table]]
    for metric in next(iter(table.values())):
        rows.append([metric, *(number(float(x[metric])) for x in table.values())])
    print("\n".join(aligned(rows, "l" + "r" * len(table))))
