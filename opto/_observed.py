"""The part of a run that is seen: an edit has to change some of it."""

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Observed:
    """The sites whose values are seen, and whether the model's outputs are seen too.

    **Fields:** `read_by`: Who reads only the recorded sites, for messages.
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
        """Only the values of some sites, which `read_by` reads."""
        return Observed(frozenset(recorded), outputs=False, read_by=read_by)


OUTPUTS = Observed()
"""Only the outputs."""
