"""Packages ("rooms") import no private files of others; a class name is unique.

Import-linter checks the order of the rooms.
"""

import ast
import collections
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


ROOT = Path(__file__).parents[1]
PACKAGES = ("opto", "icl", "sweeps")


def imported(file: Path) -> Iterator[str]:
    """The full names of what a file imports."""
    package = list(file.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{name.name}" for name in node.names)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_room_reaches_into_another_rooms_private_files():
    wrong, seen = [], 0
    for file in (x for name in PACKAGES for x in (ROOT / name).rglob("*.py")):
        own = file.relative_to(ROOT).parent.parts
        for name in imported(file):
            *modules, _ = parts = name.split(".")
            if parts[0] not in PACKAGES:
                continue
            seen += 1
            for depth, part in enumerate(modules):
                if is_private(part) and own[:depth] != tuple(parts[:depth]):
                    wrong.append(f"{file.relative_to(ROOT)}: {name}")
    assert seen > 500
    assert wrong == []


def test_no_two_public_classes_have_one_name():
    named = collections.defaultdict(list)
    for file in (x for name in PACKAGES for x in (ROOT / name).rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not is_private(node.name):
                named[node.name].append(str(file.relative_to(ROOT)))
    assert len(named) > 200
    twice = {name: files for name, files in named.items() if len(files) > 1}
    assert twice == {}


def test_each_room_says_what_belongs_there():
    """At least two sentences say what belongs there and what does not."""
    rooms = [x for name in PACKAGES for x in (ROOT / name).rglob("__init__.py")]
    said = {x: ast.get_docstring(ast.parse(x.read_text())) or "" for x in rooms}
    short = [x for x, text in said.items() if len(re.findall(r"[.;](\s|$)", text)) < 2]
    assert len(rooms) > 30
    assert [str(x.relative_to(ROOT)) for x in short] == []


def test_opto_knows_nothing_of_learning_in_context():
    """Its texts accept the edits of `icl` only once `icl.edits` is imported."""
    for file in (ROOT / "opto").iterdir():
        if file.suffix in (".py", ".md"):
            words = file.read_text().lower()
            strange = ("exemplar", "tokens.role", "import icl", "from icl")
            found = [word for word in strange if word in words]
            assert not found, f"{file.name}: {found}"
    code = """
import opto
texts = "Pattern(Induction())", "CopyFromPattern()", "Block(queries='label')"
for text in texts:
    try:
        opto.parse(text)
    except ValueError:
        continue
    raise AssertionError(text)
import icl.edits
for text in texts:
    opto.parse(text)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
