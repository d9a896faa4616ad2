"""Names in the texts of edits, `{name}`, which stand for values."""

import ast
from collections.abc import Mapping
from typing import Any


def names(text: str) -> list[str]:
    """The names in a text, each once; of a text that is none of an edit, none.

    `{name}` has no other meaning in a text: dictionaries have colons, and braces within
    a string are its own.
    """
    tree = _tree(text)
    found = [] if tree is None else map(_name, ast.walk(tree))
    return list(dict.fromkeys(name for name in found if name is not None))


def filled(text: str, values: Mapping[str, Any]) -> str:
    """The text with values in the place of its names; as it is if it has none."""
    tree = _tree(text)
    if tree is None or not names(text):
        return text
    try:
        return ast.unparse(_Fill(values).visit(tree))
    except RecursionError:
        raise ValueError("edits: a text is too deeply nested") from None


class _Fill(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, Any]):
        self.values = values

    def visit_Set(self, node: ast.Set) -> ast.AST:
        name = _name(node)
        if name is None:
            return node
        return ast.parse(repr(self.values[name]), mode="eval").body


def _name(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Set) or len(node.elts) != 1:
        return None
    (only,) = node.elts
    return only.id if isinstance(only, ast.Name) else None


def _tree(text: str) -> ast.Expression | None:
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # What is wrong with it is said by `opto.parse`.
