"""Documents that lie elsewhere: the guides, CONTRIBUTING, the data, the benchmarks."""

import re
from collections.abc import Iterator
from pathlib import Path

from markdown.extensions.toc import slugify

from .page import Made


# Documents that are one page, by their place in the site.
WHOLE = {
    "index.md": "README.md",
    "setup.md": "setup.md",
    "guides/data.md": "data/README.md",
    "guides/icl-edits.md": "icl/edits/guide.md",
    "benchmarks.md": "benchmarks/RESULTS.md",
    "changes.md": "CHANGELOG.md",
}
# Documents of which each chapter is a page, by folder; and what each page begins with.
BY_CHAPTER = {
    "guides/opto": (
        "opto/guide.md",
        "*A chapter of the guide to `opto`. The blocks of all chapters run in order, "
        "in one session; the first ones are in [The idea](guide.md#the-idea).*",
    ),
    "guides/add": ("CONTRIBUTING.md", ""),
}
# A chapter with a place of its own.
ELSEWHERE = {"coming-from-transformerlens-nnsight-or-pyvene": "coming-from.md"}


def made(root: Path) -> Iterator[Made]:
    """All of these pages."""
    for uri, source in WHOLE.items():
        text = (root / source).read_text()
        if uri == "changes.md":  # Its parts are the versions.
            text = "# Changes\n\n" + re.sub(r"^(#+ )", r"#\1", text, flags=re.M)
        yield Made(uri, text, source)
    for folder, (source, note) in BY_CHAPTER.items():
        yield from _chapters((root / source).read_text(), folder, source, note)


def _chapters(text: str, folder: str, source: str, note: str) -> Iterator[Made]:
    """A page for what comes before the first chapter, then one for each chapter."""
    before, *chapters = re.split(r"^## ", text, flags=re.MULTILINE)
    title = before.split("\n", 1)[0].removeprefix("# ")
    yield Made(f"{folder}/index.md", before, source, frozenset({_slug(title)}))
    for chapter in chapters:
        title, body = chapter.split("\n", 1)
        # A chapter's parts move up one level with it.
        body = re.sub(r"^##(#+ )", r"#\1", body, flags=re.MULTILINE)
        anchors = {_slug(title), *map(_slug, re.findall(r"^#+ (.*)", body, re.M))}
        uri = ELSEWHERE.get(_slug(title), f"{folder}/{_slug(title)}.md")
        begins = "\n\n".join(filter(None, (f"# {title}", note)))
        yield Made(uri, f"{begins}\n{body}", source, frozenset(anchors))


def _slug(title: str) -> str:
    """A heading's anchor; the same as MkDocs makes."""
    return slugify(title.replace("`", ""), "-")
