"""A longer run that begins as one on disk."""

import dataclasses
import os

from ..checksums import read_text
from ..config import changed, to_json
from ..runs import disk, keep, open_run, Run, was_kept
from ..training.schedules import Training
from ._experiment import Experiment


def lengthen(
    begun: str | os.PathLike, experiment: Experiment, out: str | os.PathLike
) -> None:
    """Makes the folder of a longer run, which has come as far as a run on disk.

    `run_experiment(experiment, out, resume=True)` then continues. The result is the
    same to the last bit as if all of it had been trained at once. If that is killed,
    the same call resumes.

    **Arguments:**

    - `begun`: The run's folder; it stays as it is.
    - `experiment`: Its experiment, with more `training.num_sequences`.
    - `out`: The folder to make.

    **Raises:** `ValueError` if the experiments differ in anything else; if the run has
    no resume point, or is longer; if a schedule has other points in the longer run, up
    to there: so has `LogSpaced`, or the end of a run at no multiple of `Every`; if
    `out` holds a run; or if a file is damaged.
    """
    run, experiment = Run(begun), experiment.pinned()
    old, training = run.read(Experiment), experiment.training
    was, total = old.training, training.num_sequences
    if total <= was.num_sequences:
        wanted = f"training.num_sequences must be more than {was.num_sequences}"
        raise ValueError(f"{wanted}, which {run.path} has, got {total}")
    longer = dataclasses.replace(was, num_sequences=total)
    goal = dataclasses.replace(old, training=longer)
    if lines := changed(to_json(goal), experiment):
        wanted = "a run is lengthened by training.num_sequences alone"
        raise ValueError(f"{wanted}; {run.path} has another config: {'; '.join(lines)}")
    at, batch = _last_common(run, was, training), training.batch_size
    with open_run(out, experiment, about={"devices": run.devices}) as new:
        for name in ("data.sha256", "heads.json"):
            if was_kept(run.path / name):
                keep(new.path, name, read_text(run.path / name))
        if (run.path / "eval_data.h5").exists():
            new.copy(run, "eval_data.h5")
        for checkpoint in (n for n in run.checkpoints if n <= at):
            new.copy(run, f"checkpoints/{checkpoint:012d}.eqx")
        with disk(new.path):
            run.log.truncated(at // batch, at).write(new.path / "log.h5", batch)
        # Last: with it, the folder can be resumed.
        new.copy(run, f"resume/{at:012d}.eqx")


def _last_common(run: Run, was: Training, longer: Training) -> int:
    """The run's last resume point up to which both have the same events."""
    points = [point for point in run.resume_points if point > 0]
    if not points:
        raise ValueError(f"{run.path} has no resume point to continue from")
    apart = {
        point: name
        for name in ("evaluate_at", "checkpoint_at")
        for point in {*was.sequences_of(getattr(was, name))}
        ^ {*longer.sequences_of(getattr(longer, name))}
    }
    first = min(apart, default=longer.seen_sequences)
    common = [point for point in points if point < first]
    if not common:
        raise ValueError(
            f"training.{apart[first]} has a point at {first} in only one of the two "
            "runs, so the longer one does not begin as the other"
        )
    return common[-1]
