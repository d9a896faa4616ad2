"""Presets: functions that return the config of a run; `icl train NAME` runs one.

One file has one preset, or those of one paper. A new file here is found by itself. What
a preset needs of its data is here too. The whole of a study's runs is in `sweeps`.
"""

from ._data import (
    check_data as check_data,
    clusters_stand_in as clusters_stand_in,
    data_shape as data_shape,
    stand_in as stand_in,
)
from ._preset import preset as preset, presets as presets
