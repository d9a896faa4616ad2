"""How far a study is, and what its runs logged: status, logs and the table of all runs.

What only reads a study's folder, for any study, belongs here; what starts or stops jobs
is in `execute`, and what a paper asks of its runs in `analysis` and `studies`.
"""

from ._collect import collect as collect, collected as collected
from ._status import status as status
