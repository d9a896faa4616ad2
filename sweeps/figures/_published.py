"""What each paper published, figure by figure, and where we show it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Published:
    """A figure or a table of a paper.

    **Fields:**

    - `number`: Its number in the paper, such as `"4b"`.
    - `shows`: What it shows, in a few words.
    - `figure`: The name of our figure for `icl figure`, or empty.
    - `notebook`: The notebook that draws it, if no `icl figure` does.
    - `absent`: Why nothing is judged, if so.
    """

    number: str
    shows: str
    figure: str = ""
    notebook: str = ""
    absent: str = ""

    def __post_init__(self):
        if not self.figure and not self.absent:
            raise ValueError(f"figure {self.number} has neither a figure nor a reason")
