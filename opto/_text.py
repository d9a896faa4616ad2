"""The text form of an edit: what `repr` prints, the command line takes, JSON stores."""

import ast
import difflib
from typing import Any

from ._edit import Clamp, Edit, Zero


# Closed: a text can name these and nothing else, and no text is ever evaluated.
_EDITS: dict[str, type[Edit]] = {"Clamp": Clamp, "Zero": Zero}


def parse(text: str) -> Edit:
    """Reads an edit such as `Zero('blocks.1.attn.z', head=[0, 1])`.

    The grammar is a name of an edit with literals (strings, numbers, lists, `None`) as
    arguments; `parse(repr(edit))` is the edit, array for array.

    **Raises:** `ValueError` that points at the token it does not understand.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise _error(text, (error.offset or 1) - 1, error.msg) from None
    except (RecursionError, MemoryError):
        raise _error(text, 0, "too deeply nested") from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise _error(text, 0, "expected an edit such as Zero('blocks.1.attn.z')")
    if call.func.id not in _EDITS:
        close = difflib.get_close_matches(call.func.id, _EDITS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(_EDITS)}"
        raise _error(text, 0, f"no edit {call.func.id!r}; {hint}")
    args = [_literal(text, node) for node in call.args]
    keywords: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise _error(text, keyword.value.col_offset, "no ** here")
        if keyword.arg in keywords:
            raise _error(text, keyword.col_offset, f"{keyword.arg}= is given twice")
        keywords[keyword.arg] = _literal(text, keyword.value)
    try:
        return _EDITS[call.func.id](*args, **keywords)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{text.strip()!r}: {error}") from None


def _literal(text: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        source = ast.get_source_segment(text.strip(), node)
        message = f"expected a string, a number or a list, got {source!r}"
        raise _error(text, node.col_offset, message) from None


def _error(text: str, column: int, message: str) -> ValueError:
    return ValueError(f"{text.strip()!r}, character {column + 1}: {message}")
