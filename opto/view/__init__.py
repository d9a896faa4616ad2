"""Values to look at: maps of records, and edits at the click of a mouse.

Nothing here knows of runs or their training.
"""

from .._maps import asset as asset, Maps as Maps, script_json as script_json
from ._explore import about as about, explore as explore, reply as reply
from ._explorer import Choice as Choice, Explorer as Explorer
from ._show import show as show, show_lens as show_lens, Shown as Shown
