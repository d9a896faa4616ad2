"""Figures of Singh et al. 2023, "The transient nature of emergent in-context learning
in transformers" (arXiv 2311.08360)."""

from collections.abc import Callable, Iterable

from ...figures import (
    ACCURACY,
    Claim,
    curves_by_set,
    draw_curves,
    Figure,
    Measured,
    Row,
    rows_of,
    Runs,
    Together,
    Within,
)
from .._transience import comes_and_goes, rows, TRANSIENT
from .runs import SEEDS
from .spread.runs import NOISES


_SETS = ("flip", "icl", "ciwl")


def _by_run(by: str) -> Callable[[Runs], Measured]:
    """Accuracies of each kind of run, at the end and at the peak of flipped labels.

    **Arguments:** `by`: What the kinds differ in, for the figure's legend.
    """

    def measure(runs: Runs) -> Measured:
        every = curves_by_set(runs, _SETS, "in_context_accuracy")
        values = {
            f"{label}: {name} end": found.by_label[label][-1]
            for name, found in every.items()
            for label in runs.folders
        }
        first = every["flip"]
        values |= {
            f"{label}: flip peak": found[first.sequences > 0].max(0)
            for label, found in first.by_label.items()
        }
        figure = draw_curves(
            {f"on {name}": found for name, found in every.items()},
            "accuracy among\nlabels in context",
            by=by,
            limits=(0, 1.02),
            threshold=0.5,
            columns=3,
        )
        return Measured(values, figure)

    return measure


def _rows(labels: Iterable[str]) -> dict[str, Row]:
    whats = ("flip peak", *(f"{name} end" for name in _SETS))
    return rows_of(ACCURACY, [f"{label}: {what}" for label in labels for what in whats])


def _stays(label: str) -> Together:
    """In-context learning came, and is still preferred at the end."""
    name = f"{label}: flip"
    return Together((Within(f"{name} peak", low=0.6), Within(f"{name} end", low=0.5)))


def _goes(label: str) -> Together:
    name = f"{label}: flip"
    return Together((Within(f"{name} peak", low=0.6), Within(f"{name} end", high=0.2)))


_PAPER = "Singh et al. 2023, arXiv 2311.08360"
_CLUSTERS = {
    "1600 × 10": ("dim-512-1600x10", "dim-4096-1600x10", "dim-32-32x2"),
    "3200 × 5": ("dim-512-3200x5", "dim-4096-3200x5", "dim-32-64x1"),
}


def _few(names: dict[str, str]) -> dict[str, str]:
    return {label: f"{name}-seed-{{seed}}" for label, name in names.items()}


def _varied(
    name: str,
    shows: str,
    source: str,
    runs: dict[str, str],
    by: str,
    claim: Callable[[str], Claim] | None,
) -> Figure:
    """A figure of varied runs, with a claim about each if the paper's is known.

    None of the runs was looked at before. Those that they are varied from are in
    transience/preference.
    """
    return Figure(
        f"transience/{name}",
        shows,
        f"{_PAPER}, {source}",
        cost="50 min",
        about="accuracy among labels in context",
        study="transience",
        runs=runs,
        measure=_by_run(by),
        rows=_rows(runs),
        claims=tuple(map(claim, runs)) if claim else (),
    )


FIGURES = (
    Figure(
        "transience/preference",
        "the context is first preferred to weights, later not; whether it can be used",
        "Singh et al. 2023, arXiv 2311.08360; targets are from Singh et al. 2025, "
        "figure 1b, the same sequences and model",
        cost="60 min, five seeds",
        about="accuracy among labels in context, and sequences seen",
        study="transience",
        runs={"main": "classes-12800*-seed-{seed} | classes-64-seed-{seed}"},
        measure=comes_and_goes,
        rows=rows((0.713, 0.0146, 0.89, 0.60, 0.987)),
        claims=TRANSIENT,
        fresh=SEEDS,
    ),
    Figure(
        "transience/spread",
        "whether the preference goes away depends on how a class's exemplars differ",
        "not from a paper: controls for transience/preference",
        cost="30 min",
        about="accuracy among labels in context",
        study="spread",
        runs={label: f"{name}-seed-{{seed}}" for label, (name, *_) in NOISES.items()},
        measure=_by_run("noise of exemplars"),
        rows=_rows(NOISES),
        # Nothing was known beforehand about 0.25 and 0.75, so nothing is claimed.
        claims=(_stays("independent"), _stays("none"), _goes("0.5 along classes")),
    ),
    _varied(
        "sizes",
        "whether the preference goes away in a deeper and in a wider model",
        "section 4.1, which gives no numbers here",
        _few({"3 layers": "3-layers", "width 128": "width-128"}),
        "model",
        _goes,
    ),
    _varied(
        "regularisation",
        "whether the preference stays with weight decay",
        "section 5, which adds a squared norm to the loss",
        _few({"decay .3": "decay-0.3", "decay 1": "decay-1"}),
        "weight decay",
        _stays,
    ),
    _varied(
        "clusters",
        "whether it comes and goes with classes of the shapes of LLaMA's clusters",
        "section 4.3; synthetic classes of as many exemplars",
        {
            label: " | ".join(f"{name}-data-4-seed-{{seed}}" for name in names)
            for label, names in _CLUSTERS.items()
        },
        "classes × exemplars",
        _goes,
    ),
    _varied(
        "zipf",
        "whether the preference goes away if some classes are much more frequent, in "
        "the evaluation sets, too",
        "section 4.4, of which we know neither numbers nor claims",
        _few({"exponent 1": "zipf-1"}),
        "Zipf exponent",
        None,
    ),
)
