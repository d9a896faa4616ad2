"""Figures of Singh et al. 2023, "The transient nature of emergent in-context learning
in transformers" (arXiv 2311.08360)."""

from ...figures import (
    ACCURACY,
    curves_by_set,
    draw_curves,
    Figure,
    Measured,
    rows_of,
    Runs,
    Together,
    Within,
)
from .._transience import comes_and_goes, rows, TRANSIENT
from .runs import SEEDS
from .spread.runs import NOISES


_SETS = ("flip", "icl", "ciwl")


def _by_noise(runs: Runs) -> Measured:
    """Accuracies at the end, by the noise of a class's exemplars."""
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
        by="noise of exemplars",
        limits=(0, 1.02),
        threshold=0.5,
        columns=3,
    )
    return Measured(values, figure)


def _stays(noise: str) -> Together:
    """In-context learning came, and is still preferred at the end."""
    name = f"{noise}: flip"
    return Together((Within(f"{name} peak", low=0.6), Within(f"{name} end", low=0.5)))


def _goes(noise: str) -> Together:
    name = f"{noise}: flip"
    return Together((Within(f"{name} peak", low=0.6), Within(f"{name} end", high=0.2)))


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
        measure=_by_noise,
        rows=rows_of(
            ACCURACY,
            [
                f"{label}: {what}"
                for label in NOISES
                for what in ("flip peak", *(f"{name} end" for name in _SETS))
            ],
        ),
        # Nothing was known beforehand about 0.25 and 0.75, so nothing is claimed.
        claims=(_stays("independent"), _stays("none"), _goes("0.5 along classes")),
    ),
)
