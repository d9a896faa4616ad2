"""Edits that know more than arrays: other runs, heads by what they do, token roles.

Edits that know arrays only belong to `opto`. Importing this room lets texts name its
edits, patterns and roles; a new public file here is found when a text is read.
`ablation` and `patching` say what a task's metrics become under such edits, of every
head or of every entry of a site.
"""

from . import heads as heads, tokens as tokens
from .patterns import Induction as Induction, Match as Match
from .verbs import (
    CopyFromPattern as CopyFromPattern,
    PerfectPreviousToken as PerfectPreviousToken,
)
