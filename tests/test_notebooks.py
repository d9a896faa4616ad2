"""Notebooks: the committed outputs match the source, and all run from scratch."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.study import study_names


FOLDER = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(FOLDER.glob("[0-9]*.py"))
each_notebook = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


@each_notebook
def test_the_executed_notebook_is_of_this_source(source):
    """The code cells equal the source's, in its order, and all were run."""
    cells = [cell for cell in _executed(source) if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]).strip() for cell in cells] == _code_cells(source)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]


@each_notebook
def test_the_executed_notebook_is_small_and_without_errors(source):
    assert source.with_suffix(".ipynb").stat().st_size <= 400_000
    outputs = [out for cell in _executed(source) for out in cell.get("outputs", ())]
    kinds = {out["output_type"] for out in outputs}
    assert kinds <= {"stream", "execute_result", "display_data"}
    assert not [out for out in outputs if out.get("name") == "stderr"]
    assert any("image/png" in out.get("data", ()) for out in outputs)


@each_notebook
def test_a_notebook_defines_no_functions(source):
    """Functions belong in the package, where they are tested and defined once."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in ast.walk(ast.parse(source.read_text())):
        assert not isinstance(node, defined), f"line {node.lineno}"
        named = isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        assert not named, f"line {node.lineno}"


def _executed(source):
    return json.loads(source.with_suffix(".ipynb").read_text())["cells"]


def _code_cells(source):
    """The code cells of a file in the percent format."""
    header, *cells = source.read_text().split("\n# %%")
    assert header.startswith("# ---")
    code = [cell for cell in cells if not cell.startswith(" [markdown]")]
    return [cell.partition("\n")[2].strip() for cell in code]


@pytest.fixture(scope="module")
def runs(smoke):
    """A folder with every study at scale `smoke`."""
    (folder,) = {smoke(study).parent for study in study_names()}
    return folder


# Runs a script and shows each cell's last expression, as a notebook does.
SHOWS = """
import ast, sys
path = sys.argv[1]
scope = {"__name__": "__main__"}
for node in ast.parse(open(path).read()).body:
    if isinstance(node, ast.Expr):
        value = eval(compile(ast.Expression(node.value), path, "eval"), scope)
        for name in ("_repr_png_", "_repr_html_", "__repr__"):
            if hasattr(value, name):
                getattr(value, name)()
    else:
        exec(compile(ast.Module([node], []), path, "exec"), scope)
"""


@pytest.mark.slow
@each_notebook
def test_a_notebook_runs_from_nothing(source, runs):
    environment = {**os.environ, "ICL_RUNS": str(runs), "MPLBACKEND": "Agg"}
    # Compile as readers do: notebooks compute for longer than they compile.
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-c", SHOWS, str(source)],
        env=environment,
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
