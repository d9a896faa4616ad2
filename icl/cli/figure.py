"""`icl figure`: a command that comes with the package of studies, above this one.

Dependencies go from `sweeps` to `icl`, so that nothing here imports it: it registers
its command as an entry point of the group `icl.commands`, as any package may.
"""

from collections.abc import Callable
from importlib.metadata import entry_points


GROUP = "icl.commands"


def figure(arguments: list[str]) -> int:
    """Runs the command; returns its exit status.

    **Raises:** `ValueError` if no installed package has it.
    """
    return plugged("figure")(arguments)


def plugged(name: str) -> Callable[[list[str]], int]:
    """A command that a package registers, a function of the arguments after its name.

    **Raises:** `ValueError` if none does.
    """
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        raise ValueError(
            f"no installed package brings the command {name!r}: install icl-opto again "
            f"(make install), or use python -m sweeps {name}"
        )
    return found[0].load()
