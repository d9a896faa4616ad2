"""The command line: one file a command, and what they share.

What commands do belongs to the other rooms.
"""

from .commands import guarded as guarded, main as main
