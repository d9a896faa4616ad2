"""`icl sites`: what can be recorded and edited."""

import opto

from ..experiments import load
from ..text import aligned
from .options import parse
from .options.sites import SitesOptions


def sites(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` if there is no run.
    """
    options = parse(SitesOptions, arguments, "sites")
    trained = load(options.run)
    table = opto.sites(trained.model, *trained.task.interface.structs)
    rows = [(name, str(s.dtype), s.dims.strip("[]")) for name, s in table.items()]
    print("\n".join(aligned([("site", "dtype", "axes"), *rows], "lll")))
