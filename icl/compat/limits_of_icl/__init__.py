"""Weights of limits_of_icl, public code that compares kinds of attention in context.

It builds on the code of Garg et al. (2022), whose models are read, too. Its functions
and shifts are tasks of ours, and belong to `icl.tasks`.
"""

from ._state import load_state as load_state
from ._weights import load_model as load_model, model_config as model_config
