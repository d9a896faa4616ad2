"""`icl replay`: measures over a run's checkpoints."""

import dataclasses
from pathlib import Path

import tyro

from .. import measures
from ..edits.grafts import read_edits
from ..experiments import load
from ..experiments.sets import check_set, named_dense_set
from ..replay import check_file, replay as _replay
from .options import parse


@dataclasses.dataclass(frozen=True)
class ReplayOptions:
    """Take measures at a run's checkpoints and write them to a file.

    The file has `sequences`, the sequences seen at each checkpoint, and an array
    `measures/NAME` for each measure, whose attribute `axes` names its axes.
    """

    run: tyro.conf.Positional[Path]
    """A run folder."""
    measure: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A measure, such as induction_strength, "induction_strength(layer=1)" or loss; may
    be repeated. Without one, the measures that there are are listed."""
    data: str = "train"
    """An evaluation set of the run, or dense: every label pair and order of 100 pairs
    of classes, or of N with dense:N."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit in force besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether the edits that the run was trained under are in force too."""
    checkpoint: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """Sequences seen at a checkpoint, -1 for the last; may be repeated. The default is
    all of them."""
    out: Path = Path("replay.h5")
    """The file to write, .h5."""


def replay(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for what cannot be.
    """
    options = parse(ReplayOptions, arguments, "replay")
    trained = load(options.run)
    known = measures.names(trained.task, trained.model)
    if not options.measure:
        width = max(map(len, known))
        print("\n".join(f"{name:{width}}  {about}" for name, about in known.items()))
        raise ValueError("--measure is missing; above is what there is")
    check_file(options.out)
    asked = {
        text: measures.parse(text, trained.task, trained.model)
        for text in options.measure
    }
    own = trained.edits if options.training_edits else ()
    edits = (*own, *read_edits(options.edit))
    # What a run was trained under is no matter to measures of its weights.
    given = None if options.training_edits and not options.edit else edits
    data = check_set(trained, options.data)
    dense = named_dense_set(trained, data)
    data = data if dense is None else dense
    found = _replay(
        trained, asked, data=data, edits=given, checkpoints=options.checkpoint or None
    )
    about = {"run": str(options.run), "data": options.data, "edits": repr(edits)}
    found.save(options.out, **about)
    for name in asked:
        print(f"{name}  [{found.axes[name]}]  {list(found[name].shape)}")
    print(f"{len(found.sequences)} checkpoints: {options.out}")
