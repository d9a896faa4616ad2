"""Studies: which runs there are, and how a machine or a cluster gets through them.

The launcher of any study is in `plan`, `execute` and `watch`; what is read off runs is
in `analysis` and `figures`; each paper has a folder in `studies`. Training, editing and
looking into one run is `icl`.
"""

from .study import StudyScale as StudyScale, Trial as Trial
from .watch import collected as collected
