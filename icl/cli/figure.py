"""`icl figure`: a command that comes with the package of studies, above this one.

Dependencies go from `sweeps` to `icl`, so that nothing here imports it: it registers
its command as an entry point of the group `icl.commands`, as any package may.
"""

from importlib.metadata import entry_points


def figure(arguments: list[str]) -> int:
    """Runs the command; returns its exit status."""
    commands = list(entry_points(group="icl.commands", name="figure"))
    if not commands:
        raise ValueError(
            "no installed package brings the command 'figure': install icl-opto again "
            "(make install), or use python -m sweeps figure"
        )
    return commands[0].load()(arguments)
