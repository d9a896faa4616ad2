"""Executes notebooks: makes `NN_name.ipynb` from each `NN_name.py` beside it.

    python notebooks/_build.py [01_probe 02_induction …]

They read the studies in `$ICL_RUNS`, by default `runs` of this repository. The file
depends only on the source and its outputs: it has no times, and cells are numbered.
"""

import base64
import os
import sys
from pathlib import Path

import jupytext
import nbclient
import nbformat
import oxipng


HERE = Path(__file__).parent
MOST = 400_000
"""The largest size of an executed notebook, in bytes."""


def notebooks(names: list[str]) -> list[Path]:
    """The sources of the named notebooks, or of all if no name is given.

    **Raises:** `ValueError` for an unknown name.
    """
    every = sorted(HERE.glob("[0-9]*.py"))
    chosen = [path for path in every if not names or path.stem in names]
    if unknown := {*names} - {path.stem for path in chosen}:
        known = ", ".join(path.stem for path in every)
        raise ValueError(f"no notebook {', '.join(sorted(unknown))}; there is {known}")
    return chosen


def build(source: Path) -> Path:
    """Executes a notebook and writes it with its outputs.

    **Raises:** `ValueError` if it is too large, and `CellExecutionError` of nbclient if
    a cell fails.
    """
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    client = nbclient.NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(HERE)}},
    )
    client.execute()
    compress_pictures(notebook)
    # The other metadata is for jupytext, or describes this Python.
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    text = nbformat.writes(notebook) + "\n"
    if len(text.encode()) > MOST:
        raise ValueError(f"{source.stem} has {len(text.encode()):,} of {MOST:,} bytes")
    target = source.with_suffix(".ipynb")
    target.write_text(text, encoding="utf-8")
    return target


def compress_pictures(notebook: nbformat.NotebookNode) -> None:
    """Makes the PNGs of all outputs smaller; no pixel changes."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                smaller = oxipng.optimize_from_memory(
                    base64.b64decode(data["image/png"]), level=4
                )
                data["image/png"] = base64.b64encode(smaller).decode()


def main() -> None:
    """Builds the named notebooks."""
    os.environ.setdefault("ICL_RUNS", str(HERE.parent / "runs"))
    for source in notebooks(sys.argv[1:]):
        target = build(source)
        print(f"{target.name}: {target.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main()
