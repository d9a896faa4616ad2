"""What each paper published, figure by figure, and where it is here."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Published:
    """A figure or a table of a paper.

    **Fields:**

    - `number`: As in the paper, `"4b"`.
    - `shows`: In a few words.
    - `figure`: The name of ours for `icl figure`, or empty.
    - `notebook`: The notebook that draws it, if no `icl figure` does.
    - `absent`: Why nothing is judged, if nothing is.
    """

    number: str
    shows: str
    figure: str = ""
    notebook: str = ""
    absent: str = ""

    def __post_init__(self):
        if not self.figure and not self.absent:
            raise ValueError(f"figure {self.number} has neither a figure nor a reason")
