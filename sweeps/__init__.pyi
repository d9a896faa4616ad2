from .study import StudyScale as StudyScale, Trial as Trial
from .watch import collect as collect
