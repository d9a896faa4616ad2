"""Exemplar-label sequences: settings, the task that draws them, and their parts.

Tasks of other families have folders beside this one. `icl.data` has the sources of the
exemplars.
"""

from ._context import Context as Context, Mixture as Mixture
from ._distribution import (
    Distribution as Distribution,
    UniformClasses as UniformClasses,
    Zipf as Zipf,
)
from ._evaluation import EvaluationSet as EvaluationSet
from ._exemplars import (
    ExemplarChoice as ExemplarChoice,
    Free as Free,
    Matched as Matched,
)
from ._files import load_sequences as load_sequences
from ._labels import (
    ClassLabels as ClassLabels,
    FlippedLabels as FlippedLabels,
    Labels as Labels,
    QueryLabelOnContext as QueryLabelOnContext,
    Relabel as Relabel,
)
from ._sequence import (
    exemplars_swapped as exemplars_swapped,
    labels_swapped as labels_swapped,
    query_logit_difference as query_logit_difference,
)
from ._split import Split as Split, SplitPart as SplitPart
from ._task import (
    ExemplarLabel as ExemplarLabel,
    ExemplarLabelTask as ExemplarLabelTask,
    Sequence as Sequence,
)
