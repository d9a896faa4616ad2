"""Artificial optogenetics: record and edit every activation of an Equinox model.

A model names its intermediate values with `tap(name, value, axes)`; everything else
here reads and changes those values from outside.
"""

import lazy_loader


# The names are in __init__.pyi. Each is imported when it is first used: JAX takes a
# second to import, and `icl --help` needs none of it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
