"""Figures of the induction-head paper's appendix on losses: A7, A8, A15 and A17.

Targets are read off the paper's figures to about 2 %; they are for one seed, on
features of Omniglot.
"""

from collections.abc import Callable

import numpy as np

from ....analysis import HALF
from ....figures import (
    crossings,
    curves,
    curves_by_set,
    draw_curves,
    Figure,
    Measured,
    Ordering,
    rows_of,
    Runs,
    SEQUENCES,
    Times,
)
from ..edits import but
from ..replicas.runs import DONORS, SHARES
from ._common import REPLICAS, SETS, TO_HALF
from ._heads import PAPER, rank


_DONORS = ("its own run", "a second seed", "a third seed")


def _given(by: str) -> Callable[[Runs], Measured]:
    """Measures the loss under each clamp or graft, and when it is half of ln 2."""

    def measure(runs: Runs) -> Measured:
        found = curves(runs)
        return Measured(
            crossings(found, HALF), draw_curves(found, by=by, threshold=HALF)
        )

    return measure


# The runs by induction strength, which is 2 s - 1 for the share s.
_STRENGTHS = {f"{2 * share - 1:+.1f}": f"{share:.2f}" for share in SHARES}


def _weaker_match(runs: Runs) -> Measured:
    every = curves_by_set(runs, SETS)
    values = {
        f"{name} at {strength}": times
        for name, found in every.items()
        for strength, times in crossings(found, HALF).items()
    }
    figure = draw_curves(
        {f"loss on {name} (nats)": found for name, found in every.items()},
        "",
        by="induction strength",
        threshold=HALF,
    )
    return Measured(values, figure)


def _two_heads(runs: Runs) -> Measured:
    found = curves(runs)
    values = crossings(found, HALF)
    pairs = [each for label, each in values.items() if label != "alone"]
    values["median with one more"] = np.median(pairs, axis=0)
    return Measured(values, draw_curves(found, by="strongest head", threshold=HALF))


_WITH = {f"with the {rank(k)}": k for k in but(0)}

FIGURES = (
    Figure(
        "induction/A7",
        "layer 0 from a trained run: with the seed's own, the rest is learned at once",
        f"{PAPER}, figure A7",
        cost="10 min",
        about=f"{TO_HALF}, by the run that layer 0 is taken from",
        runs={
            "nothing": "seed-{seed}",
            **{
                label: f"seed-{{seed}}-{name}"
                for label, name in zip(_DONORS, DONORS, strict=True)
            },
        },
        measure=_given("given layer 0 of"),
        rows=rows_of(
            SEQUENCES,
            {
                "nothing": 257e3,
                **dict(zip(_DONORS, (20e3, 215e3, 189e3), strict=True)),
            },
        ),
        claims=(
            *(Ordering(("nothing", donor)) for donor in _DONORS[1:]),
            *(Times(donor, _DONORS[0], 3) for donor in _DONORS[1:]),
        ),
        **REPLICAS,
    ),
    Figure(
        "induction/A8",
        "other heads of layer 0 clamped to the previous token; all of them is worse",
        f"{PAPER}, figure A8",
        cost="10 min",
        about=f"{TO_HALF}, by which heads are clamped",
        runs={
            "none": "seed-{seed}-long",
            "the strongest": "seed-{seed}-clamp-previous-token",
            "the weakest": "seed-{seed}-clamp-previous-token-other",
            "three": "seed-{seed}-clamp-previous-token-several",
            "all": "seed-{seed}-clamp-previous-token-all",
        },
        measure=_given("clamped"),
        rows=rows_of(
            SEQUENCES,
            {
                "none": 292e3,
                "the strongest": 197e3,
                "the weakest": 261e3,
                "three": 169e3,
                "all": 527e3,
            },
        ),
        claims=(
            Ordering(("all", "none")),
            Ordering(("none", "the strongest")),
            Ordering(("none", "the weakest")),
            Ordering(("none", "three")),
        ),
        **REPLICAS,
    ),
    Figure(
        "induction/A15",
        "weaker clamps of the match: the weaker, the later all three losses fall",
        f"{PAPER}, figure A15, which gives no numbers",
        cost="15 min",
        about="sequences seen until the loss is half of ln 2, by induction strength",
        runs={
            strength: f"seed-{{seed}}-match-{amount}"
            for strength, amount in _STRENGTHS.items()
        },
        measure=_weaker_match,
        rows=rows_of(
            SEQUENCES, [f"{name} at {s}" for name in SETS for s in _STRENGTHS]
        ),
        claims=tuple(
            Ordering(tuple(f"{name} at {s}" for s in ("+0.2", "+0.6", "+1.0")))
            for name in SETS
        ),
        **REPLICAS,
    ),
    Figure(
        "induction/A17",
        "the strongest head and one more: the phase change comes sooner",
        f"{PAPER}, figure A17, which gives a number only for one head",
        cost="15 min",
        about=f"{TO_HALF}, by the heads that layer 1 has",
        runs={
            "alone": "seed-{seed}-long",
            **{label: f"seed-{{seed}}-heads-0-{k}" for label, k in _WITH.items()},
        },
        measure=_two_heads,
        rows={
            **rows_of(SEQUENCES, {"alone": 292e3}),
            **rows_of(SEQUENCES, (*_WITH, "median with one more")),
        },
        claims=(Ordering(("alone", "median with one more")),),
        **REPLICAS,
    ),
)
