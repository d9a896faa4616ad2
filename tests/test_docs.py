"""The documents: their code runs and prints what they show, and their commands succeed.

A document's code runs in a new process, as a reader's does: what an earlier test
imported, or another document, is not there.
"""

import inspect
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import opto
from icl import edits
from icl.cli.commands import COMMANDS
from sweeps.plan import needs
from sweeps.study import list_trials, load_study, study_names


ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("*", "data/*", "docs/pages/**/*", "icl/**/*", "opto/**/*", "sweeps/**/*")
TEXTS = {
    file.relative_to(ROOT).as_posix(): file.read_text()
    for folder in FOLDERS
    for file in sorted(ROOT.glob(f"{folder}.md"))
    if not file.name.startswith("CHANGELOG")
}
# Each package's guide, by the package's name in its code.
GUIDES = {"opto": TEXTS["opto/guide.md"], "edits": TEXTS["icl/edits/guide.md"]}
SWEEP = "docs/pages/guides/sweep.md"
# The commands of these documents are not run, only read.
ONLY_READ = {
    "README.md": "installs, and runs the tests",
    "data/README.md": "needs files that must be downloaded",
    SWEEP: "trains for hours, also on Slurm",
    "docs/pages/guides/commands.md": "trains for minutes, and needs files of others",
}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# The end of a block in what a document prints.
END = "\0"


class Fenced(NamedTuple):
    """A fenced block, and the line where its body begins."""

    language: str
    line: int
    body: str

    @property
    def next(self) -> int:
        """The line where the body of a directly following block would begin."""
        # The closing fence, an empty line, and the opening fence.
        return self.line + self.body.count("\n") + 3


def blocks(text: str, *languages: str) -> list[Fenced]:
    """All blocks of a document in some languages, in order."""
    return [
        Fenced(found[1], text[: found.start(2)].count("\n") + 1, found[2])
        for found in FENCED.finditer(text)
        if found[1] in languages
    ]


def outputs(text: str) -> dict[int, str]:
    """The printed output that a document shows, by the line of the code."""
    return {
        code.line: output.body
        for code, output in itertools.pairwise(blocks(text, "python", "text"))
        if (code.language, output.language) == ("python", "text")
        and output.line == code.next
    }


def printed(text: str, folder: Path) -> dict[int, str]:
    """What the Python of a document prints in a folder, by the line of each block."""
    lines: list[str] = []  # Tracebacks have the document's line numbers.
    for block in blocks(text, "python"):
        lines += [""] * (block.line - 1 - len(lines)) + block.body.splitlines()
        lines.append(f"print({END!r}, end='')")
    (folder / "document.py").write_text("\n".join(lines))
    out = run([sys.executable, "document.py"], folder).split(END)
    return {
        block.line: part
        for block, part in zip(blocks(text, "python"), out[:-1], strict=True)
    }


def run(command: list[str], folder: Path) -> str:
    """What a command prints; fails if the command fails or warns."""
    cached = "ignore:Error reading persistent compilation cache entry"
    env = os.environ | {"PYTHONWARNINGS": f"error,{cached}"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return done.stdout


def commands(text: str) -> list[list[str]]:
    """The commands of a document, as lists of words."""
    lines = "".join(block.body for block in blocks(text, "sh")).replace("\\\n", "")
    found = (shlex.split(line, comments=True) for line in lines.splitlines())
    return [words for words in found if words]


@pytest.fixture
def demo(small_run, tmp_path):
    """A folder with a small run in place of the demo's."""
    shutil.copytree(small_run, tmp_path / "runs/demo")
    return tmp_path


WITH_CODE = [name for name, text in TEXTS.items() if blocks(text, "python")]
WITH_COMMANDS = [name for name, text in TEXTS.items() if commands(text)]


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_document_prints_what_it_shows(name, demo):
    text = TEXTS[name]
    shown = outputs(text)
    assert len(shown) == len(blocks(text, "text"))
    found = printed(text, demo)
    if name != "README.md":  # It shows what the demo gives (test_readme.py).
        assert {line: found[line] for line in shown} == shown


@pytest.mark.parametrize("name", [x for x in WITH_COMMANDS if x not in ONLY_READ])
def test_the_commands_of_a_document_succeed(name, demo):
    """In order: a later command may read an earlier run."""
    for block in blocks(TEXTS[name], "python"):
        if file := re.match(r"# (\w+\.py)\n", block.body):
            (demo / file[1]).write_text(block.body)
    tools = {"icl": [sys.executable, "-m", "icl"], "python": [sys.executable]}
    for tool, *arguments in commands(TEXTS[name]):
        run([*tools[tool], *arguments], demo)


@pytest.mark.parametrize("name", ONLY_READ)
def test_commands_that_are_not_run_can_be_read(name):
    """Each command and each option exists."""
    assert commands(TEXTS[name])
    for tool, *arguments in commands(TEXTS[name]):
        if tool == "make":
            goals = (ROOT / "Makefile").read_text()
            wanted = [each for each in arguments if "=" not in each]
            assert all(f"\n{goal}:" in goals for goal in wanted), arguments
            continue
        if tool == "icl":
            command = next(each for each in arguments if not each.startswith("-"))
            assert command in COMMANDS, (name, arguments)
            known = help_of("icl", command)
        else:
            assert [tool, *arguments[:2]] == ["python", "-m", "sweeps"], name
            verbs = {*study_names(), "status", "collect", "cancel"}
            assert arguments[2] in verbs or arguments[2].endswith(".py")
            known = help_of("sweeps", arguments[2])
        for option in (each for each in arguments if each.startswith("--")):
            # The options of a preset are its fields.
            assert option in known or option.startswith(("--model.", "--training."))


def help_of(program, command):
    """The text of the files that declare a command's options."""
    files = [*(ROOT / "icl/cli").rglob("*.py"), ROOT / "icl/plugins.py"]
    if program == "sweeps" or command == "figure":
        files = [*(ROOT / "sweeps").glob("**/*.py")]
    text = "".join(file.read_text() for file in files)
    fields = re.findall(r"^    (\w+): ", text, re.MULTILINE)
    spelled = re.findall(r"\"(--[\w-]+)\"", text)
    return {f"--{field.replace('_', '-')}" for field in fields} | {*spelled}


REACH = """
import importlib, operator, sys
for name in sys.argv[1:]:
    root, *rest = name.split(".")
    operator.attrgetter(".".join(rest))(importlib.import_module(root))
"""


@pytest.mark.parametrize("root", ["opto", "icl"])
def test_names_in_the_documents_are_reachable(root, tmp_path):
    """After `import opto` or `import icl`, without another import."""
    text = re.sub(r"^from [\w.]+ import", "", "".join(TEXTS.values()), flags=re.M)
    names = {*re.findall(rf"(?<![\w/.]){root}(?:\.[A-Za-z]\w*)+", text)}
    assert len(names) > 20
    run([sys.executable, "-c", REACH, *sorted(names)], tmp_path)


def test_a_study_of_ones_own(tmp_path):
    (block,) = blocks(TEXTS[SWEEP], "python")
    (tmp_path / "seeds.py").write_text(block.body)
    name, study = load_study(str(tmp_path / "seeds.py"))
    found = {t.name: t.experiment for t in list_trials(study, "small", tmp_path, None)}
    assert name == "seeds"
    assert needs(found, tmp_path)["silenced"] == ("seed-0",)


def test_how_to_add_a_kind_is_short():
    sections = re.split(r"^## ", TEXTS["CONTRIBUTING.md"], flags=re.MULTILINE)
    added = [each for each in sections if each.startswith("Add ")]
    words = [each.splitlines()[0].split()[-1] for each in added]
    assert words == ["task", "model", "attention", "edit", "measure", "study"]
    for each in added:
        (code,) = blocks(each, "python")
        assert code.body.count("\n") <= 40, each


@pytest.mark.parametrize("guide", GUIDES)
def test_every_edit_and_pattern_is_in_its_guide(guide):
    rooms = {"opto": (opto, opto.attention, opto.patching), "edits": (edits,)}[guide]
    public = {k: v for room in rooms for k, v in inspect.getmembers(room)}
    ideal = opto.toolkit.AbstractEdit | opto.attention.Kind
    for name, kind in public.items():
        if isinstance(kind, type) and issubclass(kind, ideal):
            abstract = inspect.isabstract(kind) or name.startswith("_")
            assert abstract or re.search(rf"\b{name}\(", GUIDES[guide]), name


def test_the_edits_of_the_page_are_all_there_are():
    page = TEXTS["docs/pages/concepts/edit.md"]
    table = page.split("| | |")[1].split("\n\n")[0]
    named = set(re.findall(r"`([A-Z]\w+)`", table))
    kinds = {
        name
        for module in (opto, opto.attention, opto.patching, edits)
        for name, kind in inspect.getmembers(module)
        if isinstance(kind, type) and issubclass(kind, opto.toolkit.AbstractEdit)
        if not (inspect.isabstract(kind) or name.startswith("_"))
    }
    assert named == kinds


def test_links_between_documents_lead_somewhere():
    """As a reader on GitHub follows them; the site turns them into its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs the git repository, to know its documents")
    documents = listed.stdout.decode().rstrip("\0").split("\0")
    assert len(documents) > len(TEXTS)
    dead = [
        f"{document}: {link}"
        for document in documents
        for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / document).read_text())
        if not re.match(r"[a-z]+:|#", link)
        and not (ROOT / document).parent.joinpath(link.partition("#")[0]).exists()
    ]
    assert not dead
