"""The figures of these studies, as `icl figure gd/NAME` makes them.

The rules of all claims were written before the runs they are judged on. Only one-layer
and two-layer linear self-attention with the seeds 0 to 7 was seen before.
"""

from . import _compare, _contexts, _lsa


FIGURES = (*_lsa.FIGURES, *_contexts.FIGURES, *_compare.FIGURES)
