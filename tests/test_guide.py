"""The guide: every block runs, and prints what it says."""

import contextlib
import dataclasses
import io
import sys
import types
from pathlib import Path

import pytest

import opto


GUIDE = Path(opto.__file__).with_name("guide.md")


@dataclasses.dataclass
class Fenced:
    """A block between fences, and on which line it begins."""

    language: str
    line: int
    body: str


def blocks() -> list[Fenced]:
    """All blocks of the guide, in order; after each, whether prose follows."""
    found, open_at = [], None
    lines = GUIDE.read_text().split("\n")
    for i, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if open_at is None:
            open_at = i
            continue
        body = "".join(f"{text}\n" for text in lines[open_at + 1 : i])
        found.append(Fenced(lines[open_at][3:].strip(), open_at + 2, body))
        open_at = None
    assert open_at is None, f"the block of line {open_at} has no end"
    return found


def expected(given: list[Fenced]) -> dict[int, str]:
    """By the line of a block of Python, the output that comes directly after it."""
    pairs = zip(given, given[1:], strict=False)
    return {
        code.line: output.body
        for code, output in pairs
        if output.language == "text"
        # A closing fence, an empty line and an opening fence.
        and output.line == code.line + code.body.count("\n") + 3
    }


def test_every_block_is_run_or_compared():
    given = blocks()
    kinds = [block.language for block in given]
    assert set(kinds) == {"python", "text"}
    assert kinds.count("text") == len(expected(given))


def test_the_guide_says_what_happens(monkeypatch):
    module = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    for kinds in (opto._text._EDITS, opto._text._VALUES):  # It registers its own.
        monkeypatch.setattr(opto._text, "_EDITS", dict(opto._text._EDITS))
    given = blocks()
    outputs = expected(given)
    for block in given:
        if block.language == "python":
            # Lines count as in the guide, for tracebacks.
            padded = "\n" * (block.line - 1) + block.body
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(padded, str(GUIDE), "exec"), vars(module))
            if block.line in outputs:
                where = f"the block of line {block.line}"
                assert printed.getvalue() == outputs[block.line], where
