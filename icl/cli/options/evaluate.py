"""The options of `icl eval`."""

import dataclasses
from typing import ClassVar

from . import help_of, SetOptions


@dataclasses.dataclass(frozen=True)
class EvalOptions(SetOptions):
    """Print the metrics of a run's model on its evaluation sets."""

    USAGE: ClassVar[str] = "RUN [options]"
    EXAMPLE: ClassVar[str] = (
        "icl eval runs/demo --edit \"Zero('blocks.1.attn.z', head=0)\""
    )


show_help = help_of(EvalOptions, "eval")
