"""Studies: lists of runs, and the tools that train them on one machine or a cluster.

`plan`, `execute` and `watch` launch any study. `analysis` and `figures` measure and
draw its runs. Each paper has a folder in `studies`. Code that trains, edits or inspects
a single run belongs in `icl`.
"""

import lazy_loader


# As in `opto`: the help of `icl figure` does not wait for JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
