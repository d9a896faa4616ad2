"""Options of the package's commands. Nothing here imports JAX, so help is quick."""

import dataclasses
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from icl.cli.options import CommandOptions


StudyScale = Literal["smoke", "small", "paper"]
ClusterKind = Literal["local", "slurm", "debug"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(CommandOptions):
    """How to train runs of a study."""

    scale: StudyScale = "small"
    """`smoke`: a minute or two; `small`: for a laptop; `paper`: as published."""
    data: str = ""
    """An HDF5 file of classes to use instead of the study's: FILE.h5 or
    FILE.h5:DATASET."""
    cluster: ClusterKind = "local"
    """Where jobs run. `local`: in processes on this machine; `slurm`: on a cluster;
    `debug`: in this process."""
    jobs: int = 1
    """The number of jobs to run at once with --cluster local."""
    cluster_file: Path | None = None
    """A file of Slurm settings; see sweeps/cluster.example.toml."""
    dry_run: bool = False
    """Print the plan with estimates from measured steps, and do not train."""

    def __post_init__(self):
        if self.jobs < 1:
            raise ValueError(f"--jobs must be at least 1, got {self.jobs}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureOptions(TrainingOptions):
    """Make one figure of a paper: train its runs, measure, compare and draw.

    The command reuses finished runs and resumes a launch that was stopped. The exit
    status is 0 if all claims hold, otherwise 1. At scale smoke, training is too short
    to judge claims, and the status is 0.
    """

    EXAMPLE: ClassVar[str] = "icl figure induction/5b --scale smoke"

    name: tyro.conf.Positional[str] = ""
    """The figure, such as induction/5b. Without it, the command lists all figures."""
    out: Path = Path("runs")
    """The folder with the studies' folders. The figure goes to `figures` in it."""
    seeds: tuple[int, ...] = ()
    """The seeds to use, from the study's. The default is all."""

    def __post_init__(self):
        super().__post_init__()
        if len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"--seeds must be different, got {self.seeds}")
