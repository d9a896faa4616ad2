"""Studies: lists of runs, and the tools that train them on one machine or a cluster.

`plan`, `execute` and `watch` launch any study. `analysis` and `figures` measure and
draw its runs. Each paper has a folder in `studies`. Code that trains, edits or inspects
a single run belongs in `icl`.
"""

from .study import StudyScale as StudyScale, Trial as Trial
from .watch import collected as collected
