"""The written pages of the site: their code runs, and their commands can be read."""

import contextlib
import inspect
import io
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import opto
from icl import edits
from icl.cli.commands import COMMANDS
from sweeps.plan import needs
from sweeps.study import list_trials, load_study, study_names


PAGES = Path(__file__).resolve().parents[1] / "docs/pages"
TEXTS = {
    page.relative_to(PAGES).as_posix(): page.read_text()
    for page in sorted(PAGES.rglob("*.md"))
}
# Python, and the output below it, if that is shown.
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
WITH_CODE = [name for name, text in TEXTS.items() if "```python" in text]


@pytest.fixture
def demo(small_run, tmp_path, monkeypatch):
    """A folder with a small run in place of the demo's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/demo").symlink_to(small_run)


@pytest.mark.usefixtures("demo", "unchecked")
@pytest.mark.parametrize("name", WITH_CODE)
def test_the_blocks_of_a_page_run_in_order(name):
    names = {"__name__": "page"}
    for code, shown in BLOCK.findall(TEXTS[name]):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, name, "exec"), names)
        if shown:
            assert printed.getvalue() == shown


def commands():
    for name, text in TEXTS.items():
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            for line in block.splitlines():
                yield name, shlex.split(line, comments=True)


def test_every_command_can_be_read():
    """Each command and each option exists; nothing is run."""
    read = 0
    for name, (tool, *arguments) in commands():
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
            read += 1
    assert read > 20


def help_of(program, command):
    """The text of the files that declare a command's options."""
    root = PAGES.parents[1]
    files = [*(root / "icl/cli").rglob("*.py"), root / "icl/plugins.py"]
    if program == "sweeps" or command == "figure":
        files = [*(root / "sweeps").glob("**/*.py")]
    text = "".join(file.read_text() for file in files)
    fields = re.findall(r"^    (\w+): ", text, re.MULTILINE)
    spelled = re.findall(r"\"(--[\w-]+)\"", text)
    return {f"--{field.replace('_', '-')}" for field in fields} | {*spelled}


def test_a_study_of_ones_own(tmp_path):
    ((block, _),) = BLOCK.findall(TEXTS["guides/sweep.md"])
    (tmp_path / "seeds.py").write_text(block)
    name, study = load_study(str(tmp_path / "seeds.py"))
    found = {t.name: t.experiment for t in list_trials(study, "small", tmp_path, None)}
    assert name == "seeds"
    assert needs(found, tmp_path)["silenced"] == ("seed-0",)


def test_the_edits_of_the_page_are_all_there_are():
    table = TEXTS["concepts/edit.md"].split("| | |")[1].split("\n\n")[0]
    named = set(re.findall(r"`([A-Z]\w+)`", table))
    kinds = {
        name
        for module in (opto, edits)
        for name, kind in inspect.getmembers(module)
        if isinstance(kind, type) and issubclass(kind, opto.AbstractEdit)
    }
    assert named == kinds - {"AbstractEdit", "Edit", "Derived"}


def test_links_between_documents_lead_somewhere():
    """As a reader on GitHub follows them; the site turns them into its own."""
    root = PAGES.parents[1]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=root, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs the git repository, to know its documents")
    documents = listed.stdout.decode().rstrip("\0").split("\0")
    assert len(documents) > len(TEXTS)
    dead = [
        f"{document}: {link}"
        for document in documents
        for link in re.findall(r"\]\(([^)\s]+)\)", (root / document).read_text())
        if not re.match(r"[a-z]+:|#", link)
        and not (root / document).parent.joinpath(link.partition("#")[0]).exists()
    ]
    assert not dead
