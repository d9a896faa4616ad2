"""Facts for help texts, read from source files, as importing them would import JAX."""

import ast
from pathlib import Path

from ...plugins import has_others


_PACKAGE = Path(__file__).parents[2]


def figure_kinds() -> dict[str, str]:
    """The figures of `icl plot` (`icl.report.figures.KINDS`) and their docstrings."""
    tree = ast.parse((_PACKAGE / "report" / "figures.py").read_text("utf-8"))
    about = {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "KINDS":
            assert isinstance(node.value, ast.Dict)
            makers = zip(node.value.keys, node.value.values, strict=True)
            return {ast.literal_eval(k): about[ast.unparse(v)] for k, v in makers if k}
    raise AssertionError("icl.report.figures has no KINDS")


def preset_names() -> list[str] | None:
    """The names of the presets; `None` if a plug-in may define further ones."""
    if has_others():
        return None
    found = []
    for file in (_PACKAGE / "presets").glob("[!_]*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "preset" in map(
                ast.unparse, node.decorator_list
            ):
                found.append(node.name)
    return sorted(found)
