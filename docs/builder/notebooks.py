"""The executed notebooks as pages. Nothing is executed here."""

import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

from .page import Made


def made(root: Path) -> list[Made]:
    """A page for the overview, and one for each notebook that was executed."""
    folder = root / "notebooks"
    first = Made(
        "notebooks/index.md", (folder / "README.md").read_text(), "notebooks/README.md"
    )
    return [first, *(_page(path) for path in sorted(folder.glob("[0-9]*.ipynb")))]


def _page(path: Path) -> Made:
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["language_info"] = {"name": "python"}  # For highlighting.
    text, resources = MarkdownExporter().from_notebook_node(notebook)
    folder = f"notebooks/{path.stem}_pictures"
    for name in resources["outputs"]:
        text = text.replace(f"({name})", f"({path.stem}_pictures/{name})")
    text = re.sub(r"!\[png\]", "![Output of the cell above]", text)
    # Python's own formatting of tables; the site has a style for them.
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.DOTALL)
    pictures = {f"{folder}/{name}": data for name, data in resources["outputs"].items()}
    source = f"notebooks/{path.name}"
    return Made(f"notebooks/{path.stem}.md", text, source, files=pictures)
