"""`icl figure`: a command that comes with the package of studies, above this one.

Dependencies go from `sweeps` to `icl`, so that nothing here imports it: it registers
its command as an entry point of the group `icl.commands`, as any package may.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any


def figure(arguments: list[str]) -> int:
    """Runs the command; returns its exit status.

    **Raises:** `ValueError` if no installed package has it.
    """
    return plugged("figure")(arguments)


def plugged(name: str, group: str = "icl.commands") -> Callable[..., Any]:
    """What a package has registered for a command.

    That is the command itself, a function of the arguments after its name; or, in the
    group `icl.help`, a function that prints its help.

    **Raises:** `ValueError` if no package does.
    """
    found = list(entry_points(group=group, name=name))
    if not found:
        raise ValueError(
            f"no installed package brings the command {name!r}: install icl-opto again "
            f"(make install), or use python -m sweeps {name}"
        )
    return found[0].load()
