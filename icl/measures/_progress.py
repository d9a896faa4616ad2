"""Progress measures: how well a model would do if one part of its circuit were perfect.

While one part is missing, the rest of the circuit may form long before the loss shows
it. To see this, clamp the missing part at each checkpoint, after training (Singh et al.
2024, appendix, on the progress measures of an induction circuit).
"""

from collections.abc import Sequence

import opto

from ..edits import Induction
from ._measure import Measure, Under
from ._text import register


Heads = str | Sequence[Sequence[int]]


@register
def previous_token_clamped(measure: Measure, heads: Heads) -> Under:
    """A measure with some heads clamped to attend only to the previous token.

    **Arguments:**

    - `measure`: The measure, for example the loss.
    - `heads`: One head, `"0:2"`, or several, `"0:1 0:2"`; or a list such as
        `[(0, 1), (0, 2)]`, which `strongest` gives.
    """
    return Under((opto.Pattern(opto.PreviousToken(), heads=heads),), measure)


@register
def match_clamped(measure: Measure, heads: Heads) -> Under:
    """A measure with some heads clamped: the query attends only to its own label.

    **Arguments:** As for `previous_token_clamped`; heads for example `"1:3"`.
    """
    return Under((opto.Pattern(Induction(), heads=heads),), measure)
