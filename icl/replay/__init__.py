"""Replays: measures over the checkpoints of a run, and what is kept of them.

What is measured belongs to `icl.measures`.
"""

from ._replay import (
    check_file as check_file,
    Replay as Replay,
    replay as replay,
    replays as replays,
)
