"""The guide: every block runs, and prints what it says."""

import contextlib
import dataclasses
import io
import sys
import types
from pathlib import Path

import pytest

import opto
from opto import _text


GUIDE = Path(opto.__file__).with_name("guide.md")


@dataclasses.dataclass
class Fenced:
    """A block between fences, and the line on which its body begins."""

    language: str
    line: int
    body: str

    @property
    def next(self) -> int:
        """Where the body of a block would begin that follows directly."""
        # The closing fence, an empty line, and the opening fence.
        return self.line + self.body.count("\n") + 3


def blocks() -> list[Fenced]:
    """All blocks of the guide, in order."""
    found: list[Fenced] = []
    start = None
    lines = GUIDE.read_text().split("\n")
    for i, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = i
            continue
        body = "".join(f"{text}\n" for text in lines[start + 1 : i])
        found.append(Fenced(lines[start][3:].strip(), start + 2, body))
        start = None
    assert start is None, f"the block of line {start} has no end"
    return found


def outputs(given: list[Fenced]) -> dict[int, str]:
    """What the guide says that code prints, by the line of the code."""
    pairs = zip(given, given[1:], strict=False)
    return {
        code.line: output.body
        for code, output in pairs
        if (code.language, output.language) == ("python", "text")
        and output.line == code.next
    }


def test_every_block_is_run_or_compared():
    languages = [block.language for block in blocks()]
    assert set(languages) == {"python", "text"}
    assert languages.count("text") == len(outputs(blocks()))


def test_every_edit_and_pattern_is_in_it():
    text = GUIDE.read_text()
    for name, kind in vars(opto).items():
        abstract = kind in (opto.AbstractEdit, opto.Edit, opto.Derived, opto.Kind)
        if isinstance(kind, type) and issubclass(kind, opto.AbstractEdit | opto.Kind):
            assert abstract or f"opto.{name}(" in text, name


@pytest.mark.usefixtures("unchecked")
def test_it_does_what_it_says(monkeypatch):
    module = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    for name in ("_EDITS", "_VALUES"):  # The guide registers some of its own.
        monkeypatch.setattr(_text, name, dict(getattr(_text, name)))
    expected = outputs(blocks())
    for block in blocks():
        if block.language != "python":
            continue
        # Lines count as in the guide, for tracebacks.
        code = compile("\n" * (block.line - 1) + block.body, str(GUIDE), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, vars(module))
        if block.line in expected:
            assert printed.getvalue() == expected[block.line], f"line {block.line}"
