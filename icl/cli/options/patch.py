"""The options of `icl patch`."""

import dataclasses
from typing import ClassVar

from . import help_of, ProbeOptions


@dataclasses.dataclass(frozen=True)
class PatchOptions(ProbeOptions):
    """Patch activations: which of them bring back the right answer?

    The model runs on the evaluation sequences (clean) and on sequences with another
    answer (corrupted). The command copies activations of the clean run into the
    corrupted run, one place at a time, and measures the evidence for the clean answer:
    its logit minus the largest logit of another label in the context. For tasks without
    labels it is the negative loss. Writes patch.csv and a figure, and prints the places
    with the largest effect.
    """

    USAGE: ClassVar[str] = "RUN [options]"
    EXAMPLE: ClassVar[str] = "icl patch runs/demo --over layer token"

    site: str = "blocks.*.resid_pre"
    """The site to patch."""
    over: tuple[str, ...] | None = None
    """One to three axes. Each combination of their indices is patched by itself. There
    are layer, the axes of the site, and token. token groups positions by the role of
    their token: right label, other label, and so on. The default is layer token, or
    layer pos if the task's tokens have no roles."""
    corruption: str = ""
    """How to make the corrupted sequences. labels-swapped: exchange the query's
    label and another label in the context. exemplars-swapped: exchange the exemplars
    instead. resample: take other sequences of the set. The default is the first of them
    that the task has."""


show_help = help_of(PatchOptions, "patch")
