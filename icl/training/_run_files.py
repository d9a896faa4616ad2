"""The files that must exist, from a run's config and log."""

from pathlib import Path

from ..config import from_json
from ..runs import Run
from .schedules import Training


def expected_files(run: Run) -> list[str]:
    """The names of the files that a run must have, from its config and log.

    The checkpoints are those that the config schedules up to the last resume point, or
    up to the log's end if there is no resume point. For an imported run, no checkpoints
    are expected.

    **Raises:** `ValueError` if the config or the log cannot be read.
    """
    config = run.config
    log = (run.path / "log.h5").exists()
    begun = log or bool(run.checkpoints or run.resume_points)
    names = ["log.h5"] if begun else []
    if begun and config.get("evaluations"):
        names.append("eval_data.h5")
    if "training" not in config or (run.path / "imported.json").exists():
        return names
    training = from_json(Training, config["training"])
    # A resumed run that was killed at once has rows in the log that do not count. Also,
    # a log may be large.
    seen = max(run.resume_points, default=None)
    seen = run.logged_sequences if seen is None else seen
    # A run compiles between its first save and its first checkpoint (at 0).
    due = training.sequences_of(training.checkpoint_at) if seen else []
    files = [run.checkpoint_file(n).relative_to(run.path) for n in due if n <= seen]
    return [*names, *(file.as_posix() for file in files)]


def last_checkpoint(run: Run) -> int:
    """The last checkpoint of a run.

    **Raises:** `ValueError` if there is none, or if a later one is gone: an earlier one
    in its place would give other numbers.
    """
    last = run.find(-1)
    try:
        names = expected_files(run)
    except ValueError:  # The reader of the damaged file will report it.
        return last
    due = [int(Path(name).stem) for name in names if name.endswith(".eqx")]
    if max(due, default=-1) > last:
        raise ValueError(
            f"the last checkpoint of {run.path}, {max(due)}, is gone; the latest that "
            f"still exists is checkpoint {last}"
        )
    return last
