"""`icl eval`: a run's metrics on its evaluation sets."""

import dataclasses
from typing import ClassVar

from ..text import aligned, as_text
from .options import parse, SetOptions
from .results import note_undefined


@dataclasses.dataclass(frozen=True)
class EvalOptions(SetOptions):
    """Print the metrics of a run's model on its evaluation sets."""

    EXAMPLE: ClassVar[str] = (
        "icl eval runs/demo --edit \"Zero('blocks.1.attn.z', head=0)\""
    )


def evaluate(arguments: list[str]) -> None:
    """Runs the command."""
    options = parse(EvalOptions, arguments, "eval")
    import jax

    from ..experiments import evaluate as metrics_of, load
    from ..experiments.sets import find_sets
    from ..runs import Run
    from ..summaries import scalars, summarise
    from ..training import last_checkpoint
    from .probe import edits_in_force

    run = Run(options.run)
    at = options.checkpoint
    checkpoint = last_checkpoint(run) if at == -1 else run.find(at)
    trained = load(options.run, checkpoint)
    edits = edits_in_force(options, trained)
    table, metrics = {}, {}
    for name, batch in find_sets(trained, options.on).items():
        rows = metrics_of(trained.model, trained.task, batch, edits=edits)
        metrics[name] = jax.device_get(rows)
        table[name] = scalars(summarise(metrics[name], trained.summaries))
    lines = [["", *table], ["checkpoint", *[str(checkpoint)] * len(table)]]
    for metric in next(iter(table.values())):
        lines.append([metric, *(as_text(float(x[metric])) for x in table.values())])
    print("\n".join(aligned(lines, "l" + "r" * len(table))))
    note_undefined("eval", metrics, "sequences")
