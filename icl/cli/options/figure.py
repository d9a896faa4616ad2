"""The help of `icl figure`, which comes with the package of studies."""

from collections.abc import Sequence

from ..figure import plugged


def show_help(arguments: Sequence[str]) -> bool:
    """Prints the help; `False` without arguments: the command lists the figures."""
    if arguments:
        plugged("figure", "icl.help")()
    return bool(arguments)
