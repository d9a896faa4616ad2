"""Replays: measures over the checkpoints of a run, and what is kept of them.

What is measured belongs to `icl.measures`.
"""

from ._found import check_replay_file as check_replay_file, Replay as Replay
from ._replay import replay as replay, replays as replays
