"""The files that a run's config and log say are there."""

from ..config import from_json
from ..runs import Run
from ..training import Training


def expected_files(run: Run) -> list[str]:
    """The names of files that a run has written, as its config and log have it.

    Checkpoints are those that the config schedules, up to where the log ends and a
    later process goes on. Of an imported run only what is there is known.

    **Raises:** `ValueError` if the config or the log cannot be read.
    """
    config = run.config
    begun = bool(run.checkpoints or run.resume_points)
    names = ["log.h5"] if begun else []
    if begun and config.get("evaluations"):
        names.append("eval_data.h5")
    if "training" not in config or (run.path / "imported.json").exists():
        return names
    training = from_json(Training, config["training"])
    seen = run.logged_sequences
    # After a resume that was killed at once, the log is longer than what counts.
    seen = min(seen, max(run.resume_points, default=seen))
    due = training.sequences_of(training.checkpoint_at) if begun else []
    files = [run.checkpoint_file(n).relative_to(run.path) for n in due if n <= seen]
    return [*names, *(file.as_posix() for file in files)]


def missing_files(run: Run) -> list[str]:
    """Those of `expected_files` that are gone."""
    return [name for name in expected_files(run) if not (run.path / name).exists()]
