from . import (
    checks as checks,
    compat as compat,
    config as config,
    data as data,
    devices as devices,
    edits as edits,
    measures as measures,
    models as models,
    plots as plots,
    plugins as plugins,
    presets as presets,
    protocols as protocols,
    roles as roles,
    summaries as summaries,
    tasks as tasks,
    toys as toys,
    training as training,
)

__version__: str

from .experiments import (
    Experiment as Experiment,
    load as load,
    run_experiment as run_experiment,
    run_experiments as run_experiments,
    Start as Start,
)
from .program_cache import keep_programs as keep_programs
from .protocols import TaskSet as TaskSet
from .replaying import Replay as Replay, replay as replay
from .runs import Run as Run
from .tasks.exemplar_label import EvaluationSet as EvaluationSet
from .tasks.exemplar_label.dense import dense_set as dense_set
from .training import fit as fit, Member as Member, Training as Training
