"""The gallery: every figure of `icl figure`, with a picture if one is kept."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeps.figures import all_figures, Figure

from .page import Made


HEAD = """# Gallery

`icl figure NAME` trains the runs that are missing, draws the figure, and prints the
paper's numbers beside ours. A title says what the paper's figure shows; then
comes what we found ([how it is judged](papers/index.md)). The pictures are from
the executed [notebooks](notebooks/index.md), or were kept with the results. The times
are for scale `small` on two cores, with nothing trained before.
"""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """The pictures of a figure, and the page of the notebook that they are from."""

    pictures: tuple[str, ...] = ()
    page: str = ""


def made(
    root: Path, shown: Sequence[Made], tallies: Mapping[str, Sequence[Any]]
) -> Made:
    """The page.

    **Arguments:**

    - `shown`: The pages of the notebooks, with their pictures.
    - `tallies`: What was found, by the name of the figure, for figures that are judged.
    """
    found = _in_notebooks(root, {uri for page in shown for uri in page.files})
    lines, files = [HEAD], {}
    paper = ""
    for name, figure in all_figures().items():
        if paper != (paper := name.split("/")[0]):
            lines.append(f"\n## {paper}\n")
        kept = root / "notebooks/results" / f"{_stem(figure)}.png"
        drawn = found.get(name, Drawn())
        if kept.is_file():
            uri = f"gallery/{kept.name}"
            files[uri] = kept.read_bytes()
            drawn = dataclasses.replace(drawn, pictures=(uri,))
        told = ". ".join(map(str, tallies.get(name, ()))) or "absent: not drawn yet"
        lines.append(_card(figure, drawn, told))
    return Made("gallery.md", "\n".join(lines), files=files)


def _card(figure: Figure, drawn: Drawn, told: str) -> str:
    """A figure's pictures, what it shows, and its command."""
    scale = " --scale small" if figure.study else ""
    lines = [f'<div class="card" markdown id="{anchor(figure.name)}">\n']
    lines += [f"**{figure.name}** · {figure.shows}\n"]
    pictures = [
        f"[![{figure.name}]({uri}){{ loading=lazy }}]({uri})" for uri in drawn.pictures
    ]
    lines += [f"{' '.join(pictures) or '*No picture is kept.*'}\n"]
    place = f" In [this notebook]({drawn.page})." if drawn.page else ""
    lines.append(f"Ours: {told}. Takes {figure.cost}.{place}\n")
    lines.append(f"```sh\nicl figure {figure.name}{scale}\n```\n\n</div>\n")
    return "\n".join(lines)


def anchor(name: str) -> str:
    """A figure's anchor on the pages about it."""
    return name.replace("/", "-").lower()


def _stem(figure: Figure) -> str:
    return f"{figure.stem}-small" if figure.study else figure.stem


def _in_notebooks(root: Path, pictures: set[str]) -> dict[str, Drawn]:
    """The pictures of each figure that a notebook shows, and the notebook's page.

    They are the output of `drawn_from(NAME, …)`. If there is none, they are the
    pictures before `table_of(NAME)` under the same heading.
    """
    drawn: dict[str, Drawn] = {}
    before: dict[str, Drawn] = {}
    for path in sorted((root / "notebooks").glob("[0-9]*.ipynb")):
        page, section = f"notebooks/{path.stem}.md", []
        for number, cell in enumerate(json.loads(path.read_text())["cells"]):
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                section = [] if re.search(r"^#", text, re.MULTILINE) else section
                continue
            for name in re.findall(r'table_of\(\s*"([^"]+)"', text):
                before.setdefault(name, Drawn(tuple(section), page))
            start = f"notebooks/{path.stem}_pictures/output_{number}_"
            own = sorted(uri for uri in pictures if uri.startswith(start))
            section = [*section, *own]
            for name in re.findall(r'drawn_from\(\s*"([^"]+)"', text):
                if own:
                    drawn[name] = Drawn(tuple(own), page)
    return before | drawn
