"""Edits that know more than arrays: other runs, heads by what they do, token roles.

Edits that know arrays only belong to `opto`. Once this package is imported,
texts can name its edits, patterns and roles; a new public file here is found when a
text is read. `ablation` and `patching` compute a task's metrics under such edits, for
every head or for every entry of a site.
"""

from . import heads as heads, tokens as tokens
from .patterns import Induction as Induction, Match as Match
from .verbs import (
    CopyFromPattern as CopyFromPattern,
    PerfectPreviousToken as PerfectPreviousToken,
)
