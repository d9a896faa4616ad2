"""The loss of training's batches beside the stage of the curriculum, as a table."""

import csv
import io

import numpy as np

from ..files import write_bytes
from ._experiment import Trained


FILE = "training_log.csv"


def training_log(trained: Trained, every: int = 500) -> dict[str, np.ndarray]:
    """The loss of every so many steps' batches, with the stage of the training data.

    **Arguments:**

    - `every`: The number of steps between two rows; limits_of_icl has 500.

    **Returns:** By column, `[row]`: `step` from 0 on, `loss`, and the numbers of
    `stage` of a task that has it, such as `n_points` and `n_dims`. They are those of
    the step itself; limits_of_icl writes those of the next step.
    """
    losses = trained.run.log.train.get("loss", np.zeros(0))
    steps = np.arange(0, len(losses), every)
    stage = getattr(trained.task, "stage", lambda seen: {})
    seen = steps * trained.experiment.training.batch_size
    return {"step": steps, "loss": losses[steps], **stage(seen)}


def write_training_log(trained: Trained) -> None:
    """Writes `training_log.csv` into the run's folder, anew each time."""
    columns = training_log(trained)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(x.tolist() for x in columns.values()), strict=True))
    write_bytes(trained.run.path / FILE, text.getvalue().encode())
