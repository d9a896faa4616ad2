"""How long learning takes for different sizes of a task."""

from collections.abc import Mapping

import numpy as np
from matplotlib.ticker import LogFormatter, NullLocator

from ._drawn import DrawnFigure, Quantity
from ._style import figure, style


def learning_times(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]], *, by: str
) -> DrawnFigure:
    """Draws the sequences seen until something is learnt, against sizes of the task.

    **Arguments:**

    - `panels`: By what is varied, such as `"classes"`, and by the name of a line: the
        sequences seen, by size. `inf` means never learnt and is not drawn.
    - `by`: What the lines are; the title of the legend.
    """
    label = "thousands of sequences"
    with style():
        fig = figure(3.0 * len(panels) + 1.3, 2.9)
        axes = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        # A logarithmic axis cannot be drawn without a number.
        learnt = any(
            np.isfinite([*times.values()]).any()
            for lines in panels.values()
            for times in lines.values()
        )
        for ax, (name, lines) in zip(axes, panels.items(), strict=True):
            for line, times in lines.items():
                sizes = np.array([*times], int)
                values = np.array([*times.values()], float)
                shown = np.where(np.isfinite(values), values, np.nan) / 1e3
                ax.plot(sizes, shown, "o-", ms=4, label=line)
                where = {f"number of {name}": sizes}
                fig.drawn = {
                    **fig.drawn,
                    f"{name}/{line}": Quantity(values, where, "sequences seen"),
                }
            ax.set_xscale("log", base=2)
            if learnt:
                ax.set_yscale("log")
            every = sorted({size for times in lines.values() for size in times})
            ax.set_xticks(every, [str(size) for size in every])
            ax.xaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter(LogFormatter())  # Avoids mathtext.
            ax.set_xlabel(f"number of {name}")
            ax.set_ylabel(label if ax is axes[0] else "")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside right upper", title=by)
    return fig
