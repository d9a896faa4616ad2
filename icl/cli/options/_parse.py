"""Command-line options from dataclasses, with errors of one line."""

import contextlib
import dataclasses
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, get_args, get_type_hints

import tyro


class CommandOptions:
    """The base of a dataclass whose fields are the options of a command."""

    USAGE: ClassVar[str] = "[options]"
    """What follows the command's name, such as `"RUN [options]"`. If it begins with a
    bracket, the command needs no arguments."""
    EXAMPLE: ClassVar[str] = ""
    """A whole command, which the help ends with."""


def help_of(
    options: type[CommandOptions], command: str
) -> Callable[[Sequence[str]], bool]:
    """A function that prints a command's help, without importing the command.

    It takes arguments with `--help` among them, or none: then it prints the usage and
    ends the process, if the command needs arguments. It returns whether it printed.
    """

    def show_help(arguments: Sequence[str]) -> bool:
        if not arguments:
            _check_given(options, arguments, f"icl {command}")
            return False
        with contextlib.suppress(SystemExit):
            parse(options, ["--help"], command)
        return True

    return show_help


def parse(
    options: type[CommandOptions],
    arguments: Sequence[str],
    command: str,
    program: str = "icl",
) -> Any:
    """Reads a command's options with tyro.

    **Arguments:**

    - `program`, `command`: How the help names the command.

    **Raises:** `ValueError`, in one line, for arguments that cannot be read;
    `SystemExit` after printing the help, or the usage if there are no arguments and
    some are needed.
    """
    _check_not_empty(arguments)
    _check_once(options, arguments)
    name = f"{program} {command}"
    _check_given(options, arguments, name)
    captured = io.StringIO()
    try:
        # Its error boxes follow the terminal's width; one line is wanted here.
        with contextlib.redirect_stderr(captured), _columns("10000", arguments):
            return tyro.cli(
                options,
                args=arguments,
                prog=name,
                config=(tyro.conf.AvoidSubcommands,),
                registry=_RULES,
            )
    except SystemExit as stop:
        if not stop.code:
            if options.EXAMPLE:
                print(f"\nexample: {options.EXAMPLE}")
            raise
        raise ValueError(_essence(captured.getvalue())) from None


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


def _check_given(
    options: type[CommandOptions], arguments: Sequence[str], name: str
) -> None:
    """Prints the usage and ends the process if arguments are needed, and none given."""
    if arguments or options.USAGE.startswith("["):
        return
    print(f"usage: {name} {options.USAGE}", file=sys.stderr)
    if options.EXAMPLE:
        print(f"example: {options.EXAMPLE}", file=sys.stderr)
    print(f"{name} --help lists the options", file=sys.stderr)
    raise SystemExit(2)


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


def _essence(box: str) -> str:
    """The first paragraph of a tyro error, and what it thinks was meant."""
    lines = box.splitlines()
    # Where the terminal's encoding has no boxes, the title is a line like the others.
    inside = [line for line in lines if line.startswith("│")] or lines[1:]
    texts = [line.strip(" │") for line in inside if line.strip("│─- ")]
    if not texts:
        return " ".join(box.split())
    if texts[0].startswith("Missing from") and len(texts) > 1:
        texts[0] = f"{' '.join(texts[1].split())} is missing"
    meant = [i for i, line in enumerate(texts) if line.startswith("Perhaps you meant")]
    hint = f"; did you mean {texts[meant[0] + 1]}?" if meant else ""
    if "Missing value" in texts[0]:
        hint = "; write a name that begins with - as ./-name"
    return texts[0].rstrip(".") + hint


@contextlib.contextmanager
def _columns(width: str, arguments: Sequence[str]) -> Iterator[None]:
    if {"-h", "--help"} & set(arguments):
        yield
        return
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = width
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
