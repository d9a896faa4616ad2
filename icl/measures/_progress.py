"""Progress measures: how well a model would do if one part of its circuit were there.

The rest of the circuit may form long before the loss shows it, while a part is missing.
Clamping that part after training, at each checkpoint, tells (Singh et al. 2024,
appendix, on the progress measures of an induction circuit).
"""

from collections.abc import Sequence

import opto

from ..edits import Induction
from ._measure import Measure, Under
from ._text import register


Heads = str | Sequence[Sequence[int]]


@register
def previous_token_clamped(measure: Measure, heads: Heads) -> Under:
    """A measure where some heads attend to the previous token and to nothing else.

    **Arguments:**

    - `measure`: Such as the loss.
    - `heads`: `"0:2"`, or several, `"0:1 0:2"`; or `[(0, 1), (0, 2)]`, as `strongest`
        gives them.
    """
    return Under((opto.Pattern(opto.PreviousToken(), heads=heads),), measure)


@register
def match_clamped(measure: Measure, heads: Heads) -> Under:
    """A measure where the query attends to its own label alone, in some heads.

    **Arguments:** As for `previous_token_clamped`; such as `"1:3"`.
    """
    return Under((opto.Pattern(Induction(), heads=heads),), measure)
