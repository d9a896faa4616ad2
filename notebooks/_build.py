"""Executes notebooks: from each `NN_name.py` makes `NN_name.ipynb` beside it.

    python notebooks/_build.py [01_probe 02_induction …]

They read the studies in `$ICL_RUNS`, by default `runs` of this repository. What is
written depends on the outputs alone: no times, and cells are numbered.
"""

import os
import sys
from pathlib import Path

import jupytext
import nbclient
import nbformat


HERE = Path(__file__).parent
MOST = 300_000
"""Bytes that an executed notebook may have."""


def notebooks(names: list[str]) -> list[Path]:
    """The sources of notebooks, of all of them if no name is given.

    **Raises:** `ValueError` for a name that is none.
    """
    every = sorted(HERE.glob("[0-9]*.py"))
    chosen = [path for path in every if not names or path.stem in names]
    if unknown := {*names} - {path.stem for path in chosen}:
        known = ", ".join(path.stem for path in every)
        raise ValueError(f"no notebook {', '.join(sorted(unknown))}; there is {known}")
    return chosen


def build(source: Path) -> Path:
    """Executes a notebook, and writes it with its outputs.

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
    # The rest is for jupytext, or about this Python.
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    text = nbformat.writes(notebook) + "\n"
    if len(text.encode()) > MOST:
        raise ValueError(f"{source.stem} has {len(text.encode()):,} of {MOST:,} bytes")
    target = source.with_suffix(".ipynb")
    target.write_text(text, encoding="utf-8")
    return target


def main() -> None:
    """Builds the notebooks that are named."""
    os.environ.setdefault("ICL_RUNS", str(HERE.parent / "runs"))
    for source in notebooks(sys.argv[1:]):
        target = build(source)
        print(f"{target.name}: {target.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main()
