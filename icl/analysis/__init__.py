"""What the papers read off studies: emergence times, heads and paths, as tables.

Of runs that `python -m sweeps NAME` made; notebooks and `icl figure` draw it.
"""

from ._answers import (
    answer_accuracy as answer_accuracy,
    logit_difference as logit_difference,
    token_letters as token_letters,
    token_names as token_names,
)
from ._emergence import (
    clamps_by_seed as clamps_by_seed,
    crossing as crossing,
    emergence as emergence,
    Estimate as Estimate,
    estimates as estimates,
    final as final,
    HALF as HALF,
    LEARNT as LEARNT,
)
from ._heads import (
    head_table as head_table,
    HeadTable as HeadTable,
    MatchTable as MatchTable,
    mended as mended,
    only as only,
    perfect_match as perfect_match,
    previous_token_heads as previous_token_heads,
    without as without,
)
from ._losses import (
    emergence_table as emergence_table,
    loss_figure as loss_figure,
    Losses as Losses,
    losses as losses,
)
from ._paths import (
    direct_ways as direct_ways,
    KEYS as KEYS,
    PairTable as PairTable,
    path_ablations as path_ablations,
    path_pairs as path_pairs,
    PathTable as PathTable,
    VALUES as VALUES,
)
from ._study import (
    find_run as find_run,
    logged_curve as logged_curve,
    RUNS as RUNS,
    runs_folder as runs_folder,
    Study as Study,
    together as together,
)
from ._table import cell as cell, Table as Table
