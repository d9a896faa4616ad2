"""The options of each command, one file a command.

Nothing here imports JAX, so that `--help` does not wait for it.
"""

from ._common import (
    ProbeOptions as ProbeOptions,
    RunOptions as RunOptions,
    SetOptions as SetOptions,
    SubjectOptions as SubjectOptions,
)
from ._parse import CommandOptions as CommandOptions, help_of as help_of, parse as parse
