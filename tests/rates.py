"""A study: a short version of the preset `lsa` at three learning rates."""

import dataclasses

from icl import TaskSet, Training
from icl.presets.gradient_descent import lsa
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every
from sweeps import Trial


RATES = (1e-3, 3e-3, 1e-2)


def trials(scale, folder, data):
    for rate in RATES:
        yield Trial(f"rate-{rate}", at_rate(rate))


def at_rate(rate):
    """The run with this learning rate and 100 steps."""
    return dataclasses.replace(
        lsa(),
        optimizer=Adam(Constant(rate)),
        training=Training(6400, 64, None, Every(3200), Every(3200)),
        evaluations={"train": TaskSet(100)},
    )
