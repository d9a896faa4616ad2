"""What commands share: how options are read, and the options of several commands.

Nothing here imports JAX, so that help is quick. For the same reason a command imports
what computes only after it has read its options.
"""

import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args, get_type_hints

import tyro


class CommandOptions:
    """The base of a dataclass whose fields are the options of a command."""

    EXAMPLE: ClassVar[str] = ""
    """A whole command, which the help shows."""


def parse(
    options: type[CommandOptions],
    arguments: Sequence[str],
    command: str,
    program: str = "icl",
) -> Any:
    """Reads a command's options with tyro, which prints help and errors.

    **Arguments:**

    - `program`, `command`: How the help names the command.

    **Raises:** `ValueError` for an option that is empty or given twice; `SystemExit`
    after help was printed, or an error about other arguments.
    """
    _check_not_empty(arguments)
    _check_once(options, arguments)
    about = inspect.getdoc(options) or ""
    if options.EXAMPLE:
        about += f"\n\nexample: {options.EXAMPLE}"
    return tyro.cli(
        options,
        args=arguments,
        prog=f"{program} {command}",
        description=about,
        config=(tyro.conf.AvoidSubcommands,),
        registry=_RULES,
    )


_RULES = tyro.constructors.ConstructorRegistry()


@_RULES.primitive_rule
def _number_or_config(
    given: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    """A field that is a number or a config, such as `b1` of Adam, takes a number.

    Without this rule it would be an argument without a name. `--set` takes the config.
    """
    kinds = get_args(given.type)
    if float not in kinds or not any(map(dataclasses.is_dataclass, kinds)):
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda texts: float(texts[0]),
        is_instance=lambda value: isinstance(value, kinds),
        str_from_instance=lambda value: [str(value)],
    )


def _check_not_empty(arguments: Sequence[str]) -> None:
    """Raises `ValueError` for an empty value, such as that of a variable that is unset.

    As a path it would mean the working directory, and as a text the default.
    """
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if not argument or (option.startswith("--") and equals and not value):
            named = option or (before if before.startswith("--") else "an argument")
            raise ValueError(f"{named} is empty: give it a value, or leave it out")
        before = argument


def _check_once(options: type[CommandOptions], arguments: Sequence[str]) -> None:
    """Raises `ValueError` for an option that is given twice and takes one value.

    Of several values, tyro takes the last one.
    """
    hints = get_type_hints(options, include_extras=True)
    many = {name for name, hint in hints.items() if "AppendAction" in str(hint)}
    seen: set[str] = set()
    for argument in arguments:
        if not argument.startswith("--"):
            continue
        option = argument.partition("=")[0]
        name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
        if name in seen and name not in many:
            raise ValueError(f"{option} is given twice; give it once")
        seen.add(name)


@dataclasses.dataclass(frozen=True)
class RunOptions(CommandOptions):
    """A run and the edits to apply."""

    run: tyro.conf.Positional[Path]
    """A run folder."""
    edit: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An edit to apply besides those of training, such as
    "Zero('blocks.1.attn.z', head=3)"; may be repeated."""
    training_edits: bool = True
    """Whether to apply the edits that the run was trained with, too."""

    @property
    def as_trained(self) -> bool:
        """Whether exactly the edits of training are applied."""
        return self.training_edits and not self.edit


@dataclasses.dataclass(frozen=True)
class SetOptions(RunOptions):
    """A model, the edits to apply, and the sequences to use."""

    checkpoint: int = -1
    """The checkpoint, as the number of sequences seen; -1 is the last."""
    on: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An evaluation set to use; may be repeated. The default is all of them. Tasks with
    exemplar-label sequences also have dense (every label pair and order of 100 pairs of
    classes) and dense:N (of N pairs)."""


@dataclasses.dataclass(frozen=True)
class ProbeOptions(SetOptions):
    """A model, the edits, the sequences, and the folder for the results."""

    out: Path | None = None
    """The folder for the results. The default is a folder in the run's folder."""


@dataclasses.dataclass(frozen=True)
class SubjectOptions(RunOptions):
    """A run, the sequences to use, and the edits to apply."""

    on: str = ""
    """An evaluation set to use. The default is the first. Tasks with exemplar-label
    sequences also have dense (every label pair and order of 100 pairs of classes) and
    dense:N (of N pairs)."""


@dataclasses.dataclass(frozen=True)
class MarkedOptions(SubjectOptions):
    """A run, the sequences, the edits, and the loss that marks the phase change."""

    threshold: float | None = None
    """A loss, in the unit of the task's losses. Figures mark the phase change where the
    set's loss first falls to it. Figure 5b of the induction-head paper uses 0.347 nats,
    half of ln 2."""
