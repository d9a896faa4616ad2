"""Runs a study's jobs: in processes of this machine, or on a Slurm cluster.

Launches, the code of a job's process, and the check whether a job is alive belong here.
Which runs there are and what they cost belongs in `plan`, their progress in `watch`.
"""

from ._alive import (
    alive_jobs as alive_jobs,
    is_alive as is_alive,
    running_launch as running_launch,
    stop as stop,
)
from ._launch import Launch as Launch, plan as plan
from ._plan_table import plan_table as plan_table
from ._slurm import cancel_jobs as cancel_jobs, queue as queue
from ._train import (
    executor_of as executor_of,
    train as train,
)
