"""Runs and weights of other codebases, converted to ours.

Each codebase has a folder, which registers itself like a plug-in. Earlier formats of
our own runs do not belong here: `icl.config` and `icl.runs` read them.
"""

import pkgutil

import lazy_loader


# Each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    [x.name for x in pkgutil.iter_modules(__path__) if not x.name.startswith("_")],
)
