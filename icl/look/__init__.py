"""A run in a browser: patterns, edits and curves, and a slider over checkpoints.

What a page draws of any model is in `opto.view`; figures of a run belong to
`icl.report`.
"""

from ._page import export as export
from ._serve import Server as Server
from ._side import Side as Side
