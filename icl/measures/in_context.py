"""How much more context helps a language model."""

import jax.numpy as jnp
from jaxtyping import Array, PyTree

import opto

from ..checks import positive
from ..tasks.tokens import token_losses
from ._measure import Measure, Reduction, SequenceMean
from ._text import register


_MEAN = SequenceMean()


@register
def in_context_score(
    early: int = 50, late: int = 500, *, over: Reduction = _MEAN
) -> Measure:
    """The loss at a late token minus the loss at an early one, in nats.

    The more negative, the more the model learns in context (Olsson et al. 2022, arXiv
    2209.11895, whose tokens are the 50th and the 500th).

    **Arguments:**

    - `early`, `late`: Which tokens; the first of a sequence is 0 and is not predicted.
    - `over`: How to combine the sequences.

    **Raises:** `ValueError` unless 0 < early < late, and for shorter sequences.
    """
    positive("early", early)
    if late <= early:
        raise ValueError(f"late must be above early={early}, got {late}")

    def fn(record: opto.toolkit.Record, outputs: PyTree, example: PyTree) -> Array:
        if late >= len(example.ids):
            wanted = f"sequences must have more than {late} tokens"
            raise ValueError(f"in_context_score: {wanted}, got {len(example.ids)}")
        losses = token_losses(outputs, example.ids)
        return jnp.asarray(losses[late] - losses[early])

    return Measure(fn, over=over, label="in-context learning score (nats)")
