"""The options of `icl patch`."""

import dataclasses
from typing import ClassVar

from . import help_of, ProbeOptions


@dataclasses.dataclass(frozen=True)
class PatchOptions(ProbeOptions):
    """Patch activations: what of the right answer comes back with each of them?

    Values of the run on the evaluation sequences (clean) are put into the run on
    sequences with another answer (the source), place by place. Measured is how strongly
    the clean answer is given: the logit of the clean sequence's label less the best
    other one of its context, or, where there are no labels, the negative loss. Writes
    patch.csv and a figure, and prints the places where most comes back.
    """

    USAGE: ClassVar[str] = "RUN [options]"
    EXAMPLE: ClassVar[str] = "icl patch runs/demo --over layer token"

    site: str = "blocks.*.resid_pre"
    """What is patched."""
    over: tuple[str, ...] | None = None
    """One to three axes whose indices are patched one by one: layer, axes of the site,
    and token, which is pos with positions grouped by the part of their token in the
    answer (right label, other label, ...). The default is layer token, or layer pos for
    tasks whose tokens have no such part."""
    source: str = ""
    """What has another answer: labels-swapped, the same sequences with the query's
    label and another in their context exchanged; exemplars-swapped; or resample, other
    sequences of the set. The default is the first that the task has."""


show_help = help_of(PatchOptions, "patch")
