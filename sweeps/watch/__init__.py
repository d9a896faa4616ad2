"""The progress of a study, and what its runs logged: status, and one table of all logs.

Code that only reads a study's folder, for any study, belongs here. Code that starts or
stops jobs belongs in `execute`, and a paper's analyses in `analysis` and `studies`.
"""

from ._collect import collect as collect, collect_command as collect_command
from ._status import status as status
