"""What can be read off a run under the microscope: measures for `icl.replay`."""

from ._heads import (
    attention_patterns as attention_patterns,
    induction_strength as induction_strength,
    previous_token_excess as previous_token_excess,
    previous_token_strength as previous_token_strength,
    query_attention as query_attention,
    query_entropy as query_entropy,
)
from ._measure import (
    AnyMeasure as AnyMeasure,
    Each as Each,
    Groups as Groups,
    Mean as Mean,
    Measure as Measure,
    OfModel as OfModel,
    Reduction as Reduction,
    sites_of as sites_of,
    Under as Under,
)
from ._metrics import metric_names as metric_names, task_metric as task_metric
