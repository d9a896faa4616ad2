"""In-context learning: tasks, models, training and runs, made to be looked into."""

from ._replay import replay as replay
from .experiment import (
    EvaluationSet as EvaluationSet,
    Experiment as Experiment,
    load as load,
    run_experiment as run_experiment,
    run_experiments as run_experiments,
    Trained as Trained,
)
from .runs import open_run as open_run, Run as Run
from .train import fit as fit, Member as Member, Training as Training
