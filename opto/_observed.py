"""What of a run anybody gets to see: an edit has to change some of it."""

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Observed:
    """The sites whose values are seen, and whether the model's outputs are, too.

    **Fields:** `read_by`: Who sees nothing but the recorded sites, for messages.
    """

    recorded: frozenset[str] = frozenset()
    outputs: bool = True
    read_by: str = ""

    @staticmethod
    def too(recorded: Iterable[str]) -> "Observed":
        """The outputs, and the values of some sites."""
        return Observed(frozenset(recorded))

    @staticmethod
    def only(recorded: Iterable[str], read_by: str) -> "Observed":
        """Nothing but the values of some sites, which somebody reads."""
        return Observed(frozenset(recorded), outputs=False, read_by=read_by)


OUTPUTS = Observed()
"""The outputs alone."""
