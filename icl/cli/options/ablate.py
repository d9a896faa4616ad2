"""The options of `icl ablate`."""

import dataclasses
from typing import ClassVar, Literal

from . import help_of, ProbeOptions


@dataclasses.dataclass(frozen=True)
class AblateOptions(ProbeOptions):
    """Ablate each head by itself, and all of them together.

    Writes heads.csv and a figure, and prints the heads whose ablation changes the loss
    most.
    """

    USAGE: ClassVar[str] = "RUN [options]"
    EXAMPLE: ClassVar[str] = 'icl ablate runs/demo --heads "1:0 1:3"'

    heads: str = "all"
    """The heads, each written layer:head and counted from 0, such as "1:3 1:7"; or
    all."""
    site: str = "blocks.*.attn.z"
    """The activation of a head that is ablated."""
    ablation: Literal["zero", "mean", "resample"] = "zero"
    """The new value: zero, the mean over the set's sequences, or the value in another
    sequence of the set."""


show_help = help_of(AblateOptions, "ablate")
