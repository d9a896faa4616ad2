"""Replays: measures taken at the checkpoints of a run, and their stored values.

The measures themselves belong to `icl.measures`.
"""

from ._replay import replay as replay, replays as replays, trained_of as trained_of
from ._result import check_replay_file as check_replay_file, Replay as Replay
