"""Presets: functions that return the config of a run, `icl train NAME` by their name.

One file is one preset, or those of one paper; a new file here is found by itself. What
a study runs in all is in `sweeps`.
"""

from ._preset import preset as preset, presets as presets
