"""Figures: functions of results that return a matplotlib `Figure`."""

from ._ablation import ablation as ablation
from ._curves import learning_curves as learning_curves
from ._heads import head_strengths as head_strengths
from ._patterns import attention_patterns as attention_patterns
from ._style import save as save
