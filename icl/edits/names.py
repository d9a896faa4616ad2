"""Names `{name}` in the texts of edits, each a placeholder for a value."""

import ast
from collections.abc import Mapping
from typing import Any


def names(text: str) -> list[str]:
    """The names in a text, each once; none if the text cannot be read as an edit.

    `{name}` has no other meaning in a text: a dictionary has colons, and braces inside
    a string belong to the string.
    """
    tree = _tree(text)
    found = [] if tree is None else map(_name, ast.walk(tree))
    return list(dict.fromkeys(name for name in found if name is not None))


def filled(text: str, values: Mapping[str, Any]) -> str:
    """The text with its names replaced by values; unchanged if it has no names."""
    tree = _tree(text)
    if tree is None or not names(text):
        return text
    try:
        return ast.unparse(_Fill(values).visit(tree))
    except RecursionError:
        raise ValueError("edits: the text of an edit is too deeply nested") from None


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
        return None  # `opto.parse` reports what is wrong with it.
