"""A page for each paper: what it claimed, figure by figure, and what we found."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sweeps.figures import all_figures, papers, Published

from .gallery import anchor
from .page import Made


def made(root: Path) -> Iterator[Made]:
    """The overview, then a page for each paper."""
    results = _results(root)
    found = results.kept()
    told = results.by_figure(found)
    # The overview takes the place of the file's own heading and table.
    head = re.sub(r"\[(results/)\]\(\w+\)", r"`notebooks/\1`", results.HEAD)
    content = f"{head}\n{_overview(results, told)}"
    yield Made("papers/index.md", content, "notebooks/RESULTS.md")
    for folder, module in papers().items():
        own = {each.figure for each in module.PUBLISHED if each.figure}
        sections = [each for each in found if each["figure"] in own]
        lines = [
            *_claimed(module),
            f"\n{module.STORY}",
            *_commands(own),
            "\n## Figure by figure\n",
            *results.figures_of(module.PUBLISHED, told, _where(sections)),
            "",
            *(line for each in sections for line in _section(results, each)),
        ]
        yield Made(f"papers/{folder}.md", "\n".join(lines))


def tallies(root: Path) -> dict[str, list[Any]]:
    """What was found of each figure that was drawn, by its name."""
    results = _results(root)
    every = results.by_figure(results.kept())
    return {name: [*map(results.Tally.of, each)] for name, each in every.items()}


def _results(root: Path) -> Any:
    """The script that writes `notebooks/RESULTS.md`; it knows how to tell a result."""
    path = root / "notebooks/_results.py"
    spec = importlib.util.spec_from_file_location("notebook_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _overview(results: Any, told: dict[str, list[Any]]) -> str:
    """A row for each paper: its figures, claims and numbers, and what is absent."""
    lines = [
        "## The papers\n",
        "| paper | figures | claims that hold | numbers in range | figures absent |",
        "| --- | --: | --: | --: | --: |",
    ]
    for folder, module in papers().items():
        every = module.PUBLISHED
        there = [each for each in every if each.figure in told]
        absent = sum(not e.notebook and e.figure not in told for e in every)
        names = {each.figure for each in there}
        found = [results.Tally.of(told[name][0]) for name in names]
        sums = [sum(each[i] for each in found) for i in range(4)]
        cells = f"{sums[0]} of {sums[1]} | {sums[2]} of {sums[3]}"
        paper = f"[{module.PAPER}]({folder}.md)"
        lines.append(f"| {paper} | {len(every)} | {cells} | {absent} |")
    lines.append(
        "\nA figure with results on several data sets counts by the first. *Absent* "
        "are figures that were not run; some others are drawn, but not judged."
    )
    return "\n".join(lines)


def _claimed(module: ModuleType) -> Iterator[str]:
    """The paper's name, and what its `published` says about it."""
    yield f"# {module.PAPER}\n"
    text = (module.__doc__ or "").strip()
    number = r"(?<![\[/\w.])(?:arXiv )?(\d{4}\.\d{5})(?!\])"
    yield re.sub(number, r"[arXiv \1](https://arxiv.org/abs/\1)", text)


def _commands(own: set[str]) -> Iterator[str]:
    """How to train all runs of the paper's figures."""
    figures = all_figures()
    studies = sorted({figures[name].study for name in own} - {""})
    if studies:
        yield "\nThese commands train the runs of all figures on this machine:\n"
        yield "```sh"
        for study in studies:
            yield f"python -m sweeps {study} --out runs/{study} --scale small"
        yield "```"


def _where(sections: list[dict[str, Any]]) -> Any:
    """Says where a figure is: its section and picture, or a notebook."""
    drawn = {each["figure"] for each in sections}

    def where(each: Published) -> str:
        if each.figure:
            name, here = f"`{each.figure}`", anchor(each.figure)
            numbers = f"[{name}](#{here})" if each.figure in drawn else name
            return f"{numbers} · [picture](../gallery.md#{here})"
        if each.notebook:
            return f"[{each.notebook}](../notebooks/{each.notebook}.md)"
        return "–"

    return where


def _section(results: Any, found: dict[str, Any]) -> Iterator[str]:
    """A figure's numbers, under a heading that the table links to."""
    heading, *lines = results.section(found)
    name, source = heading.removeprefix("## ").strip().split(" · ", 1)
    own = " on other data" if found["own_data"] else ""
    yield f"## {name}{own} {{ #{anchor(name)}{'-own' if own else ''} }}\n"
    yield f"{source}.\n"
    scale = " --scale small" if all_figures()[name].study else ""
    yield f"`icl figure {name}{scale}` · [picture](../gallery.md#{anchor(name)})\n"
    # A list needs an empty line before it.
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        yield line
        if after.startswith("- ") and not line.startswith("- "):
            yield ""
