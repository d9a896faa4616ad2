"""What to run, and what it costs: which run needs which, programs, and estimates.

A module belongs here if it needs only experiments and measured steps, before any run
exists. Code that starts jobs or asks for their progress does not belong here.
"""

from ._estimate import (
    estimates as estimates,
    JobEstimate as JobEstimate,
    Machine as Machine,
    measured_groups as measured_groups,
    most_members as most_members,
)
from ._groups import (
    by_path as by_path,
    Group as Group,
    groups as groups,
    pack as pack,
    program as program,
)
from ._needs import needs as needs
from ._wanted import (
    check_same as check_same,
    differs_from as differs_from,
    experiments_of as experiments_of,
    matching as matching,
    Wanted as Wanted,
    wanted as wanted,
)
