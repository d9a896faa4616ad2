"""In-context learning: tasks, models, training and runs that are easy to inspect.

Here are short names for what most programs use. Everything else is in the subpackages.
`opto` records and edits models, whatever they learn; `sweeps` is for studies of many
runs.
"""

from importlib.metadata import version

import lazy_loader


__version__ = version("icl-opto")

# As in `opto`: a name of __init__.pyi is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
