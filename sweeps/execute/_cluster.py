"""The Slurm settings of a user's cluster, from a small TOML file."""

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import Any

import platformdirs

from icl.config import from_json


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What every job asks of Slurm; fields that are `None` are not passed on."""

    partition: str | None = None
    """The partition to submit to."""
    account: str | None = None
    """The account that pays."""
    qos: str | None = None
    """The quality of service."""
    constraint: str | None = None
    """Features a node must have, such as `a100|h100`."""
    exclude: str | None = None
    """Nodes not to use."""
    gpus: int = 0
    """GPUs of a job; its members are spread over them."""
    cpus: int = 1
    """Cores of a job; without GPUs, its members are spread over them."""
    memory_gb: float = 8.0
    """Main memory of a job."""
    gpu_memory_gb: float | None = None
    """Memory of one GPU; decides how many members fit. Needed if `gpus` is not 0."""
    time_minutes: int = 60
    """The wall-clock limit. A job that reaches it is requeued and resumes."""
    signal_seconds: int = 90
    """How long before the limit a job is told to save."""
    max_jobs: int = 256
    """How many jobs of one Slurm array may run at once."""
    modules: tuple[str, ...] = ()
    """Modules to load before Python starts."""
    setup: tuple[str, ...] = ()
    """Shell lines to run before Python starts, after the modules."""
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    """More options of sbatch, such as `reservation = "icl"`."""

    def __post_init__(self):
        for name in ("cpus", "time_minutes", "signal_seconds", "max_jobs"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}"
                )
        if self.signal_seconds >= 60 * self.time_minutes:
            raise ValueError(
                f"signal_seconds must be less than the limit of {self.time_minutes} "
                f"minutes, got {self.signal_seconds}"
            )
        if self.gpus < 0:
            raise ValueError(f"gpus must be at least 0, got {self.gpus}")
        for name in ("memory_gb", "gpu_memory_gb"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if self.gpus and self.gpu_memory_gb is None:
            raise ValueError("gpu_memory_gb must be given if there are gpus, got none")

    @property
    def device_bytes(self) -> int:
        """Memory of a device: of one GPU, or the main memory of the job."""
        size = self.gpu_memory_gb if self.gpus else self.memory_gb
        return int((size or 0) * 2**30)

    @property
    def devices(self) -> int:
        """The number of devices that a job's members are spread over."""
        return self.gpus or self.cpus

    def sbatch(self, name: str, dependency: str) -> dict[str, Any]:
        """The parameters of submitit's Slurm executor."""
        asked = {
            field: getattr(self, field)
            for field in ("partition", "account", "qos", "constraint", "exclude")
            if getattr(self, field)
        }
        if self.gpus:
            asked["gpus_per_node"] = self.gpus
        if dependency:
            asked["dependency"] = dependency
        if self.options:
            asked["additional_parameters"] = self.options
        loads = [f"module load {module}" for module in self.modules]
        return {
            **asked,
            "job_name": name,
            "time": self.time_minutes,
            "signal_delay_s": self.signal_seconds,
            "cpus_per_task": self.cpus,
            "mem": f"{int(self.memory_gb * 1024)}MB",
            "nodes": 1,
            "ntasks_per_node": 1,
            "array_parallelism": self.max_jobs,
            "setup": [*loads, *self.setup],
        }


def default_file() -> Path:
    """The default settings file: `$ICL_CLUSTER`, or `icl-opto/cluster.toml` in the
    user's configuration folder."""
    if given := os.environ.get("ICL_CLUSTER"):
        return Path(given)
    return platformdirs.user_config_path("icl-opto") / "cluster.toml"


def read_cluster(file: Path) -> Cluster:
    """Reads the settings from a file.

    **Raises:** `ValueError`, in one line, for a file that is missing or not TOML, an
    unknown key (it suggests the nearest), or an invalid value.
    """
    example = Path(__file__).parents[1] / "cluster.example.toml"
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"there is no cluster file {file}; copy {example} there and edit it"
        ) from None
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{file} is not TOML: {error}") from None
    try:
        return from_json(Cluster, settings)
    except ValueError as error:
        message = str(error).removeprefix("config: ")
        raise ValueError(f"{file}: {message}") from None
