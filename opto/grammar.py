"""What the texts of edits and of measures have in common: calls, literals and errors.

A text is parsed as Python and never evaluated. Errors point at a character.
"""

import ast
import dataclasses
import inspect
import reprlib
from collections.abc import Callable, Container
from typing import Any


# An error shows at most this many characters of a text.
_SHOWN = 200


@dataclasses.dataclass(frozen=True)
class Text:
    """A text that is being read.

    **Fields:**

    - `text`: The text, without space around it.
    - `what`: What errors call it, `"measure "`; nothing by default.
    """

    text: str
    what: str = ""

    def expression(self) -> ast.expr:
        """The syntax of the whole text.

        **Raises:** `ValueError` that points at the wrong token.
        """
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            place = self._lines_before(error.lineno or 1) + (error.offset or 1) - 1
            raise self.error(place, error.msg) from None
        except (RecursionError, MemoryError):
            raise self.error(0, "too deeply nested") from None
        except ValueError as error:  # A null byte.
            raise self.error(0, str(error)) from None

    def arguments(
        self, call: ast.Call, value: Callable[[ast.expr], Any], unsaid: tuple = ()
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, each read by `value`.

        **Raises:** `ValueError` for `**`, for a name that is given twice, and for a
        name in `unsaid`, which only Python code can give.
        """
        args = [value(node) for node in call.args]
        keywords: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise self.error(keyword.value, "** is not allowed here")
            if keyword.arg in unsaid:
                raise self.error(keyword, f"{keyword.arg}= cannot be given in a text")
            if keyword.arg in keywords:
                raise self.error(keyword, f"{keyword.arg}= is given twice")
            keywords[keyword.arg] = value(keyword.value)
        return args, keywords

    def literal(self, node: ast.expr, wanted: str) -> Any:
        """A string, a number, a list, a dictionary, `True`, `False` or `None`.

        **Raises:** `ValueError` that says what was `wanted` for anything else.
        """
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            source = ast.get_source_segment(self.text, node)
            got = reprlib.repr(source)
            raise self.error(node, f"expected {wanted}, got {got}") from None
        except (RecursionError, MemoryError):
            raise self.error(node, "too deeply nested") from None

    def error(self, place: int | ast.expr | ast.keyword, message: str) -> ValueError:
        """The error to raise about a character, from 0, or a part of the syntax."""
        if not isinstance(place, int):
            # Python counts lines, and bytes within a line.
            line = self.text.split("\n")[place.lineno - 1].encode()
            within = len(line[: place.col_offset].decode())
            place = self._lines_before(place.lineno) + within
        where = f"{self.what}{self._around(place)}, character {place + 1}"
        return ValueError(f"{where}: {message}")

    def _around(self, place: int) -> str:
        """The text for an error; of a long text only the part near a character."""
        start, end = max(0, place - _SHOWN // 2), place + _SHOWN // 2
        if len(self.text) <= _SHOWN:
            return repr(self.text)
        dots = "…" if start else "", "…" if end < len(self.text) else ""
        return f"{dots[0]}{self.text[start:end]!r}{dots[1]}"

    def _lines_before(self, lineno: int) -> int:
        return sum(len(line) + 1 for line in self.text.split("\n")[: lineno - 1])


def takes(make: Callable[..., Any], unsaid: Container[str] = ()) -> str:
    """The arguments that a text can give, `(layer=None)`; nothing if there are none."""
    said = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(make).parameters.values()
        if parameter.name not in unsaid
    ]
    return str(inspect.Signature(said)) if said else ""
