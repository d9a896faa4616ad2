"""Runs of icl-dynamics, the public code of Singh et al. (2024, 2025).

This folder translates its flags, weights, logs and sequences. What our runs do with
them afterwards belongs to the other folders.
"""

from . import _donor as _donor
from ._flags import (
    edits_from_config as edits_from_config,
    edits_from_flags as edits_from_flags,
)
from ._import import import_run as import_run
from ._weights import load_model as load_model, load_run as load_run
