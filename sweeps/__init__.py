"""Studies: which runs there are, and how a machine or a cluster gets through them."""

from ._collect import collected as collected
from ._study import StudyScale as StudyScale, Trial as Trial
