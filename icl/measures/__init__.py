"""Measures of a model; `icl.replay` takes them at the checkpoints of a run.

A measure is a value that says what to record for one example and what to compute from
it. `icl.replay` chooses the checkpoints; measures of a single paper belong to its
folder of `sweeps.studies`. A new public file here is found when a text is read.
"""

from ._development import (
    model_outputs as model_outputs,
    outputs_pca as outputs_pca,
    OutputsPCA as OutputsPCA,
    Stage as Stage,
    stages as stages,
)
from ._heads import (
    attention_patterns as attention_patterns,
    induction_strength as induction_strength,
    match_clamped as match_clamped,
    previous_token_clamped as previous_token_clamped,
    previous_token_excess as previous_token_excess,
    previous_token_strength as previous_token_strength,
    query_attention as query_attention,
    query_entropy as query_entropy,
    repeat_attention as repeat_attention,
)
from ._hessian import (
    dimension as dimension,
    effective_dimension as effective_dimension,
    hessian_eigenvalues as hessian_eigenvalues,
    largest_eigenvalues as largest_eigenvalues,
)
from ._layers import strongest as strongest
from ._llc import (
    LLC as LLC,
    llc as llc,
    llc_scale as llc_scale,
    llc_summary as llc_summary,
    llc_trace as llc_trace,
)
from ._measure import (
    AnyMeasure as AnyMeasure,
    EachSequence as EachSequence,
    GroupMean as GroupMean,
    lacking as lacking,
    Measure as Measure,
    OfModel as OfModel,
    Reduction as Reduction,
    SequenceMean as SequenceMean,
    sites_of as sites_of,
    Under as Under,
)
from ._metrics import metric_names as metric_names, task_metric as task_metric
from ._sgld import (
    RMSpropSGLD as RMSpropSGLD,
    sampled_losses as sampled_losses,
    SGLD as SGLD,
)
from ._text import names as names, parse as parse, register as register
from ._weights import (
    composition as composition,
    constant_logits as constant_logits,
    induction_matching as induction_matching,
    ov_copying as ov_copying,
    qk_matching as qk_matching,
    unembedding_biases as unembedding_biases,
)
