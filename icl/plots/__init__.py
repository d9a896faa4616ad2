"""Figures: functions of results that return a matplotlib `Figure`.

Each figure keeps the numbers it shows in `figure.drawn`; `save` writes them to a file
beside the picture. `traces` is the general figure of curves; the other figures of
curves set panels and labels for one kind of data. Code that reads a run to draw it
belongs to `icl.report`.
"""

from ._bars import bars as bars, intervals as intervals
from ._changes import ablation as ablation, change_maps as change_maps
from ._dots import dots as dots
from ._drawn import (
    DrawnFigure as DrawnFigure,
    Quantity as Quantity,
    read_drawn as read_drawn,
)
from ._heads import (
    average_strength as average_strength,
    head_strengths as head_strengths,
    heads_over_time as heads_over_time,
)
from ._interval import (
    Confidence as Confidence,
    Interval as Interval,
    Quantiles as Quantiles,
)
from ._legend import TooManyGroups as TooManyGroups
from ._lines import (
    head_lines as head_lines,
    learning_times as learning_times,
    Line as Line,
    lines as lines,
)
from ._maps import head_maps as head_maps
from ._patterns import (
    attention_patterns as attention_patterns,
    token_maps as token_maps,
    token_pairs as token_pairs,
)
from ._recovered import recovered_maps as recovered_maps
from ._save import save as save
from ._similarity import integral_by_similarity as integral_by_similarity
from ._style import style as style
from ._toys import (
    clamped_descents as clamped_descents,
    mechanism_seeds as mechanism_seeds,
    two_mechanisms as two_mechanisms,
    vector_progress as vector_progress,
)
from ._traces import (
    learning_curves as learning_curves,
    traces as traces,
    training_loss as training_loss,
)
