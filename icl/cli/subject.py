"""The run that `icl plot` and `icl report` draw."""

import math

from ..experiments import load
from ..experiments.sets import check_set
from ..report.subject import Subject
from .options import SubjectOptions
from .probe import edits_in_force


def subject_of(options: SubjectOptions) -> Subject:
    """The run, set and edits that the options name.

    **Raises:** `ValueError` for a run or a set that does not exist, and for an edit or
    a threshold that does not fit.
    """
    level = options.threshold
    if level is not None and not (math.isfinite(level) and level > 0):
        raise ValueError(f"--threshold must be a loss above 0, got {level}")
    trained = load(options.run)
    edits = (
        None if options.as_trained else edits_in_force(options, trained, record="**")
    )
    data = check_set(trained, options.data)
    return Subject(trained, data, edits, threshold=level)
