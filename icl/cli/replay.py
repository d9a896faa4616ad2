"""`icl replay`: compute measures at a run's checkpoints."""

from .. import measures
from ..experiments import load
from ..replaying import check_replay_file, replay as replay_run
from .notes import note_undefined
from .options import parse
from .options.replay import ReplayOptions
from .probe import edits_in_force


def replay(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a run, a measure, a set or a checkpoint that does not
    exist, and for an edit that does not fit.
    """
    options = parse(ReplayOptions, arguments, "replay")
    trained = load(options.run)
    known = measures.names(trained.task, trained.model)
    if not options.measure:
        width = max(map(len, known))
        print("\n".join(f"{name:{width}}  {about}" for name, about in known.items()))
        raise ValueError("--measure is missing; above is what there is")
    out = options.out or options.run / "replay.h5"
    check_replay_file(out)
    asked = {
        text: measures.parse(text, trained.task, trained.model)
        for text in options.measure
    }
    edits = edits_in_force(options, trained, record="**")
    found = replay_run(
        trained,
        asked,
        data=options.data,
        # What a run was trained under is no matter to measures of its weights.
        edits=None if options.as_trained else edits,
        checkpoints=options.checkpoint or None,
    )
    # A path may have bytes that are no text.
    run = str(options.run).encode(errors="replace").decode()
    about = {"run": run, "data": options.data, "edits": repr(edits)}
    found.save(out, **about)
    for name in asked:
        print(f"{name}  [{found.axes[name]}]  {list(found[name].shape)}")
    print(f"{len(found.sequences)} checkpoints: {out}")
    values = {name: found[name] for name in asked}
    note_undefined("replay", {options.data: values}, "checkpoints")
