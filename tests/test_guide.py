"""The guides: every code block runs and prints the output shown."""

import contextlib
import dataclasses
import io
import sys
import types
from pathlib import Path

import pytest

import opto
from icl import edits
from opto import _text, _tokens


# Each package's guide, by the package's name in its code.
GUIDES = {
    name: Path(package.__file__ or "").with_name("guide.md")
    for name, package in {"opto": opto, "edits": edits}.items()
}


@dataclasses.dataclass
class Fenced:
    """A fenced block, and the line where its body begins."""

    language: str
    line: int
    body: str

    @property
    def next(self) -> int:
        """The line where the body of a directly following block would begin."""
        # The closing fence, an empty line, and the opening fence.
        return self.line + self.body.count("\n") + 3


def blocks(guide: str) -> list[Fenced]:
    """All blocks of a guide, in order."""
    found: list[Fenced] = []
    start = None
    lines = GUIDES[guide].read_text().split("\n")
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
    """The printed output that a guide shows, by the line of the code."""
    pairs = zip(given, given[1:], strict=False)
    return {
        code.line: output.body
        for code, output in pairs
        if (code.language, output.language) == ("python", "text")
        and output.line == code.next
    }


@pytest.mark.parametrize("guide", GUIDES)
def test_every_block_is_run_or_compared(guide):
    languages = [block.language for block in blocks(guide)]
    assert set(languages) == {"python", "text"}
    assert languages.count("text") == len(outputs(blocks(guide)))


@pytest.mark.parametrize("guide", GUIDES)
def test_every_edit_and_pattern_is_in_it(guide):
    text = GUIDES[guide].read_text()
    for name, kind in vars({"opto": opto, "edits": edits}[guide]).items():
        abstract = kind in (opto.AbstractEdit, opto.Edit, opto.Derived, opto.Kind)
        if isinstance(kind, type) and issubclass(kind, opto.AbstractEdit | opto.Kind):
            assert abstract or f"{guide}.{name}(" in text, name


def test_the_guide_to_opto_uses_nothing_else():
    text = GUIDES["opto"].read_text()
    assert "import icl" not in text
    assert "from icl" not in text


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("guide", GUIDES)
def test_it_does_what_it_says(guide, monkeypatch):
    module = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    for name in ("_EDITS", "_VALUES"):  # The guide registers its own.
        monkeypatch.setattr(_text, name, dict(getattr(_text, name)))
    monkeypatch.setattr(_tokens, "_NAMES", dict(_tokens._NAMES))
    expected = outputs(blocks(guide))
    for block in blocks(guide):
        if block.language != "python":
            continue
        # Tracebacks have the guide's line numbers.
        code = compile("\n" * (block.line - 1) + block.body, str(GUIDES[guide]), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, vars(module))
        if block.line in expected:
            assert printed.getvalue() == expected[block.line], f"line {block.line}"
