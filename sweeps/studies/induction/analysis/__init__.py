"""Measurements of the induction-head paper: heads, and the paths between layers.

Measurements for other papers too belong in `sweeps.analysis`, drawings in `figures`.
"""

from ._heads import (
    head_table as head_table,
    HeadTable as HeadTable,
    MatchTable as MatchTable,
    mended as mended,
    perfect_match as perfect_match,
    previous_token_heads as previous_token_heads,
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
