"""`icl eval`: a run's metrics on its evaluation sets."""

import dataclasses
from typing import ClassVar, TYPE_CHECKING

from ..text import aligned, number
from .notes import note, note_undefined
from .options import parse, SetOptions


if TYPE_CHECKING:
    from ..runs import Run


@dataclasses.dataclass(frozen=True)
class EvalOptions(SetOptions):
    """Print the metrics of a run's model on its evaluation sets."""

    EXAMPLE: ClassVar[str] = (
        "icl eval runs/demo --edit \"Zero('blocks.1.attn.z', head=0)\""
    )


def evaluate(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a run without evaluation sets, for a set or checkpoint
    that does not exist, for an edit that does not fit, and for a file that is gone and
    decides the numbers.
    """
    options = parse(EvalOptions, arguments, "eval")
    import jax

    from ..experiments import evaluate as metrics_of, load
    from ..experiments.sets import find_sets
    from ..runs import Run
    from ..summaries import scalars, summarise
    from ..training import last_checkpoint
    from .probe import edits_in_force

    run = Run(options.run)
    _check_there(run, options)
    at = options.checkpoint
    checkpoint = last_checkpoint(run) if at == -1 else run.find(at)
    trained = load(options.run, checkpoint)
    edits = edits_in_force(options, trained)
    table, metrics = {}, {}
    for name, batch in find_sets(trained, options.set).items():
        rows = metrics_of(trained.model, trained.task, batch, edits=edits)
        metrics[name] = jax.device_get(rows)
        table[name] = scalars(summarise(metrics[name], trained.summaries))
    lines = [["", *table], ["checkpoint", *[str(checkpoint)] * len(table)]]
    for metric in next(iter(table.values())):
        lines.append([metric, *(number(float(x[metric])) for x in table.values())])
    print("\n".join(aligned(lines, "l" + "r" * len(table))))
    note_undefined("eval", metrics, "sequences")


def _check_there(run: "Run", options: EvalOptions) -> None:
    """Notes which files are missing; raises `ValueError` if the numbers need them."""
    from ..training import missing_files

    sets = {*options.set} or {*run.config.get("evaluations", {})}
    try:
        missing = missing_files(run)
    except ValueError as error:
        # What is evaluated is looked at when it is read.
        note("eval", f"which files there should be is not known: {error}")
        return
    if "eval_data.h5" in missing and sets & {*run.config["evaluations"]}:
        raise ValueError(f"{run.path / 'eval_data.h5'} is gone, which has the sets")
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        note("eval", f"{run.path} lacks {', '.join(missing[:3])}{more}, see icl check")
