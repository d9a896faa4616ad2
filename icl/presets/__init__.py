"""Presets: functions that return the config of a run, `icl train NAME` by their name.

One file is one preset, or those of one paper; a new file here is found by itself. What
a preset asks of its data is here too; what a study runs in all is in `sweeps`.
"""

from ._data import (
    check_data as check_data,
    data_shape as data_shape,
    stand_in as stand_in,
)
from ._preset import preset as preset, presets as presets
