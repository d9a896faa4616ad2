"""The options of `icl ablate`."""

import dataclasses
from typing import ClassVar, Literal

from . import help_of, ProbeOptions


@dataclasses.dataclass(frozen=True)
class AblateOptions(ProbeOptions):
    """Ablate heads, each by itself and all of them together.

    Writes heads.csv and a figure, and prints the heads that matter most.
    """

    USAGE: ClassVar[str] = "RUN [options]"
    EXAMPLE: ClassVar[str] = 'icl ablate runs/demo --heads "1:0 1:3"'

    heads: str = "all"
    """Which heads, as layer:head from 0, such as "1:3 1:7"; or all."""
    site: str = "blocks.*.attn.z"
    """What of a head is ablated."""
    ablation: Literal["zero", "mean", "resample"] = "zero"
    """Set to zero, to the mean over the set's sequences, or to another sequence's."""


show_help = help_of(AblateOptions, "ablate")
