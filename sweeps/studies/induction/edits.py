"""The edits of the induction-head paper, for heads that are found by measuring.

Which head does what depends on the initial weights: in the paper's run (seed 5) the
heads were 3 in layer 1, and 2, or 1, 2 and 5, or not 6 in layer 0. Here the edits' text
uses names for the heads, which are measured at the end of a run without clamps.
"""

from collections.abc import Iterable
from pathlib import Path

from icl.edits.names import names
from icl.edits.ranked import RankedHeads


NUM_HEADS = 8


def but(*kept: int) -> tuple[int, ...]:
    """The heads of a layer, or their ranks, except these."""
    return tuple(head for head in range(NUM_HEADS) if head not in kept)


# Ranks in layer 1, by induction strength. Clamped runs keep the strongest head, though
# any would do (the paper found that another head changes little).
INDUCTION = {
    "induction": (0,),
    "others": but(0),
    **{f"all_but_0_{rank}": but(0, rank) for rank in but(0)},
}
# Ranks in layer 0, by how much labels attend to the exemplars before them.
PREVIOUS_TOKEN = {"previous": (0,), "several": (0, 1, 2), "other": (-1,)}


def heads_of(run: Path, edits: Iterable[str]) -> dict[str, RankedHeads]:
    """The heads that edits name, measured at the end of a run."""
    found = {}
    for name in dict.fromkeys(name for text in edits for name in names(text)):
        if name in INDUCTION:
            measure, layer, ranks = "induction_strength", 1, INDUCTION[name]
        else:
            measure, layer, ranks = "previous_token", 0, PREVIOUS_TOKEN[name]
        found[name] = RankedHeads(str(run), measure, layer, ranks)
    return found


def zero(heads: str) -> str:
    """Ablates heads of layer 1: a name or numbers."""
    return f"Zero('blocks.1.attn.z', head={heads})"


def previous(heads: str) -> str:
    """Clamps heads of layer 0 to the previous token: step 1 of the paper's five."""
    return f"Pattern(PreviousToken(), site='blocks.0.attn.pattern', head={heads})"


def match(strength: float = 1.0) -> str:
    """Clamps the induction head to the right label: the paper's steps 1 to 4."""
    kind = f"Induction({strength})"
    return f"Pattern({kind}, site='blocks.1.attn.pattern', head={{induction}})"


ALONE = zero("{others}")
LAYER_0 = "PerfectPreviousToken()"
COPY = "CopyFromPattern(site='blocks.1.attn.scores', head={induction})"

# Figure 5b: what is clamped, and which heads of layer 1 are left. Copying reads only
# the one head's scores, so the other heads may stay. Our layer 0 is the paper's 1.
CLAMPS = {
    "none": (ALONE,),
    "previous-token": (ALONE, previous("{previous}")),
    "layer-0": (LAYER_0, ALONE),
    "match": (ALONE, match()),
    "copy": (COPY,),
    "layer-0-copy": (LAYER_0, COPY),
}
