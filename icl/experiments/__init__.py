"""Experiments: a run as one value, built, trained into a folder, and read back.

`icl.training` does the training, and `icl.runs` the writing.
"""

from ._evaluate import evaluate as evaluate
from ._experiment import Experiment as Experiment, load as load, Trained as Trained
from ._lengthen import lengthen as lengthen
from ._running import (
    run_experiment as run_experiment,
    run_experiments as run_experiments,
)
from ._start_weights import Start as Start
