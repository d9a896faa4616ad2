"""The text form of an edit: what `repr` prints, the command line takes, JSON stores."""

import ast
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ._checks import named
from ._derived import Freeze
from ._edit import AbstractEdit, At
from ._edits import Clamp, Scale, Steer, Zero
from ._per_example import PerExample
from ._reference import Mean, Patch, Resample
from ._subspace import Project
from ._tokens import TOKENS
from .attention import Block, Kind, Pattern, PreviousToken, Uniform
from .graft import Graft
from .grammar import takes, Text
from .hints import brief, did_you_mean
from .patching import PathPatch


# Closed: a text can name these and nothing else, and no text is ever evaluated.
_EDITS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (
        *(Clamp, Zero, Scale, Steer, Mean, Resample, Patch, Freeze, Pattern, Block),
        *(Graft, PathPatch, Project),
    )
}
_VALUES: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (At, PerExample, PreviousToken, Uniform)
}

# All that `register` and `name_tokens` fill.
REGISTERED: tuple[dict[str, Any], ...] = (_EDITS, _VALUES, TOKENS)

_Kind = TypeVar("_Kind", bound=AbstractEdit | Kind)


def register(kind: type[_Kind]) -> type[_Kind]:
    """Lets texts name your own edit or kind of pattern; a decorator.

    **Raises:** `ValueError` for any other class, and for a name that is taken.
    """
    if not (isinstance(kind, type) and issubclass(kind, AbstractEdit | Kind)):
        raise ValueError(
            f"register takes a class of edits or of kinds, got {brief(kind)}"
        )
    table = _EDITS if issubclass(kind, AbstractEdit) else _VALUES
    there = {**_EDITS, **_VALUES}.get(kind.__name__)
    if there is not None and (there.__module__, there.__qualname__) != (
        kind.__module__,
        kind.__qualname__,
    ):
        name, owner = kind.__name__, there.__module__
        raise ValueError(f"register: the name {name} is taken by {owner}")
    table[kind.__name__] = kind
    return kind


def parse(text: str) -> Any:
    """Reads an edit such as `Zero('blocks.1.attn.z', head=[0, 1])`.

    A text is the name of an edit and its arguments: literals (strings, numbers, lists,
    dictionaries, `True`, `False`, `None`), kinds of patterns such as
    `PreviousToken(0.7)`, or other edits. `parse(edit.text())` is the edit, array
    for array. `opto.toolkit.register` makes your own edits known.

    **Raises:** `ValueError` that points at the token it does not understand.
    """
    read = Text(named("an edit's text", text).strip())
    call = read.expression()
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise read.error(0, "expected an edit such as Zero('blocks.1.attn.z')")
    return _call(read, call, _EDITS)


def _call(read: Text, call: ast.Call, known: dict[str, Callable[..., Any]]) -> Any:
    assert isinstance(call.func, ast.Name)
    name = call.func.id
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        raise read.error(call.func, f"no edit {name!r}{hint}")
    args, keywords = read.arguments(call, lambda node: _value(read, node))
    make = known[name]
    try:
        inspect.signature(make).bind(*args, **keywords)
    except TypeError as error:
        raise read.error(
            call.func, f"{error}; the form is {name}{takes(make)}"
        ) from None
    try:
        return make(*args, **keywords)
    except (TypeError, ValueError, OverflowError) as error:
        raise read.error(call.func, str(error)) from None


def _value(read: Text, node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        known = {**_EDITS, **_VALUES}
        if did_you_mean(node.func.id, known):
            return _call(read, node, known)
    if isinstance(node, ast.List | ast.Tuple) and any(
        isinstance(part, ast.Call) for part in ast.walk(node)
    ):
        return [_value(read, part) for part in node.elts]
    return read.literal(node, "a string, a number or a list")
