"""To get through a study's jobs: in processes of this machine, or on a Slurm cluster.

A launch, what runs in a job's process, and the questions whether it is still there
belong here; which runs there are and what they cost is in `plan`, how far they are in
`watch`.
"""

from ._alive import alive_jobs as alive_jobs
from ._launch import Launch as Launch, plan as plan
from ._local import cores as cores
from ._process import is_alive as is_alive, is_process as is_process, stop as stop
from ._slurm import cancel_jobs as cancel_jobs, queue as queue
from ._table import plan_table as plan_table
from ._train import (
    ClusterKind as ClusterKind,
    data_of as data_of,
    executor_of as executor_of,
    train as train,
)
