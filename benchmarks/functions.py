"""A run's errors by the number of pairs, beside published ones.

    python benchmarks/functions.py runs/wide --picture wide.png

The run has linear functions of 20 components and 41 points, such as those of the preset
`function_linear_three_layers`. Errors are squared, of 1280 prompts, and divided by the
mean square of f. Published are Garg et al. 2022 (arXiv 2208.01066), after 20 and 40
pairs, and the saved output of limits_of_icl (softmax, after 40): GPT-2s with 12 layers
of 256.
"""

import argparse
from pathlib import Path

import numpy as np

import icl
from icl import plots
from icl.baselines.functions import LeastSquares
from sweeps.studies.attention.analysis import by_context, drawable, prompt_task


PUBLISHED = {"Garg et al.": {20: 0.02, 40: 0.0006}, "limits_of_icl": {40: 0.035 / 20}}
_SHOWN = range(0, 41, 5)


def main() -> None:
    """Prints the errors, and draws them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    try:
        task = prompt_task(options.run)
    except (TypeError, ValueError) as error:
        raise SystemExit(str(error)) from None
    if (task.dim, task.points) != (20, 41):
        size = f"{task.dim} and {task.points}"
        raise SystemExit(
            f"{options.run} must have 20 components, 41 points; has {size}"
        )
    trained = icl.load(options.run)
    found = by_context(options.run, task)
    ours, exact = found.mean[0], by_context(LeastSquares(), task).mean[0]
    batch = trained.experiment.training.batch_size
    print(f"{trained.run.checkpoints[-1] // batch:,} steps of {batch}")
    print("pairs          ", *(f"{n:6}" for n in _SHOWN))
    for name, errors in {"ours": ours, "least squares": exact}.items():
        print(f"{name:15}", *(f"{errors[n]:6.4f}" for n in _SHOWN))
    for name, errors in PUBLISHED.items():
        cells = (f"{errors[n]:6.4f}" if n in errors else "     –" for n in _SHOWN)
        print(f"{name:15}", *cells)
    ratio = ours[1:].mean() / exact[1:].mean()
    print(f"mean error over 1 to 40 pairs: {ratio:.2f} times that of least squares")
    if options.picture is not None:
        _draw(ours, exact, found.interval()).savefig(options.picture, dpi=150)
        print(options.picture)


def _draw(ours, exact, band) -> plots.DrawnFigure:
    pairs = np.arange(len(ours))
    lines = {
        "least squares": plots.Line(pairs, drawable(exact), colour="0.5", width=2.5),
        "3 layers of 64": plots.Line(pairs, ours, band.low[0], band.high[0]),
    }
    for name, errors in PUBLISHED.items():
        lines[f"{name}, 12 layers"] = plots.Line(
            np.array([*errors]), np.array([*errors.values()]), marker="o", dashed=True
        )
    return plots.lines(
        {"": lines},
        x="pairs before the query",
        y="squared error ÷ mean square of f",
        scale="log",
    )


if __name__ == "__main__":
    main()
