"""In-context learning: tasks, models, training and runs, made to be looked into."""

from ._ranked import RankedHeads as RankedHeads
from ._replay import Replay as Replay, replay as replay, replays as replays
from .dense import dense_set as dense_set, GroupedSequences as GroupedSequences
from .experiment import (
    Experiment as Experiment,
    load as load,
    Start as Start,
    Trained as Trained,
)
from .protocols import TaskSet as TaskSet
from .running import (
    run_experiment as run_experiment,
    run_experiments as run_experiments,
)
from .runs import open_run as open_run, Run as Run
from .tasks import EvaluationSet as EvaluationSet
from .train import fit as fit, Member as Member, Training as Training
