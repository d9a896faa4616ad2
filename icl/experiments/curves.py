"""A run's learning curves: the numbers of its log at each event."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..config import from_json
from ..protocols import TaskConfig
from ..runs import Run
from ..summaries import over_events, scalars
from ..text import ArraysByShape


@dataclasses.dataclass(frozen=True, repr=False)
class Curves(ArraysByShape):
    """The numbers of each evaluation set over training.

    **Fields:**

    - `events`: Sequences seen, `[event]`.
    - `numbers`: By set (in the order of the config) and by metric, `[event]`; see
        `icl.summaries.scalars`.
    """

    events: np.ndarray
    numbers: Mapping[str, Mapping[str, np.ndarray]]


def curves(run: Run) -> Curves:
    """The learning curves of a run so far."""
    config, log = run.config, run.log
    summaries = from_json(TaskConfig, config["task"]).summaries
    known, order = log.evaluations, config.get("evaluations", {})
    names = [*(n for n in order if n in known), *(n for n in known if n not in order)]
    numbers = {n: scalars(over_events(known[n], summaries), lead=1) for n in names}
    return Curves(log.events, numbers)
