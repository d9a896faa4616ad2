"""In-context learning: tasks, models, training and runs that are easy to inspect.

Here are short names for what most programs use. Everything else is in the subpackages.
`opto` records and edits models, whatever they learn; `sweeps` is for studies of many
runs.
"""

from .edits.ranked import RankedHeads as RankedHeads
from .experiments import (
    Experiment as Experiment,
    load as load,
    run_experiment as run_experiment,
    run_experiments as run_experiments,
    Start as Start,
    Trained as Trained,
)
from .protocols import TaskSet as TaskSet
from .replay import Replay as Replay, replay as replay, replays as replays
from .runs import open_run as open_run, Run as Run
from .tasks.exemplar_label import EvaluationSet as EvaluationSet
from .tasks.exemplar_label.dense import (
    dense_set as dense_set,
    GroupedSequences as GroupedSequences,
)
from .training import fit as fit, Member as Member, Training as Training
