"""Studies: which runs there are, and how a machine or a cluster gets through them."""

from .study import StudyScale as StudyScale, Trial as Trial
from .watch import collected as collected
