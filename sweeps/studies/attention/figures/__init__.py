"""Figures of kinds of attention that learn linear functions in context.

Published numbers are of limits_of_icl (`kenzhengjk/limits_of_icl`), unless a row says
Garg: squared errors at the last of 41 points of 20 components, over 1280 prompts, by
its `eval.py`; we divide them by 20, the error of always predicting 0. Its models have
12 layers and saw 100,000 batches with one seed. Its README gives windows two global
tokens. It is not known whether the published models had them; we compare those with
windows without. At scale `small` we have 5 components, 11 points and three layers of
64, so no number is compared with the published ones there. The last point also has
twice as many pairs before it as there are components.

The figures of shifts, of `curves` and of other functions have runs of 80,000 steps at
`small`, ten times as many as in the studies before. Their claims were written before
these runs. What 8000 steps had shown was known: the order of errors, that points in one
orthant hurt kinds without a softmax more, that skewed points hurt softmax the least of
those that see all tokens but linear attention, and that longer queries hurt ReBased
more than softmax.
"""

from . import _curves, _functions, _shifts


FIGURES = (*_curves.FIGURES, *_shifts.FIGURES, *_functions.FIGURES)
