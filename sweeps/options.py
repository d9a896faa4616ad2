"""Options that can be shown without importing JAX."""

import dataclasses
from pathlib import Path
from typing import ClassVar, Literal

import tyro

from icl.cli.options import CommandOptions, help_of


StudyScale = Literal["smoke", "small", "paper"]
ClusterKind = Literal["local", "slurm", "debug"]


@dataclasses.dataclass(frozen=True)
class FigureOptions(CommandOptions):
    """Make one figure of a paper: train its runs, measure, compare and draw.

    Finished runs are reused, and a launch that was stopped is resumed. The exit status
    is 0 if all claims hold, else 1; at scale smoke, where training is too short to
    judge, it is 0.
    """

    EXAMPLE: ClassVar[str] = "icl figure induction/5b --scale smoke"

    name: tyro.conf.Positional[str] = ""
    """The figure, such as induction/5b; without a name, all figures are listed."""
    scale: StudyScale = "small"
    """`smoke`: a minute or two; `small`: laptop-sized; `paper`: as published."""
    out: Path = Path("runs")
    """The folder that holds the studies' folders; the figure is saved in `figures`
    there."""
    data: str = ""
    """An HDF5 file of classes, FILE.h5 or FILE.h5:DATASET; replaces the study's."""
    seeds: tuple[int, ...] = ()
    """Use only these of the study's seeds; all by default."""
    cluster: ClusterKind = "local"
    """`local`: processes of this machine; `slurm`: a cluster; `debug`: this process."""
    jobs: int = 1
    """How many jobs to run at once, for --cluster local."""
    cluster_file: Path | None = None
    """The Slurm settings; see sweeps/cluster.example.toml."""
    dry_run: bool = False
    """Print the plan, with estimates from a measured step, and train nothing."""

    def __post_init__(self):
        if self.jobs < 1:
            raise ValueError(f"--jobs must be at least 1, got {self.jobs}")
        if len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"--seeds must be different, got {self.seeds}")


def figure_help() -> None:
    """Prints the help of `icl figure`."""
    help_of(FigureOptions, "figure")(["--help"])
