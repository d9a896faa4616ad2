"""Weights of implicit-likelihood-ratio-transformer, the code of arXiv 2603.10573.

Its variants differ in what is trained and in what is done to the context. The first is
`freeze` of an experiment here, the second `context_change` of a task.
"""

from ._weights import load_model as load_model
