"""CONTRIBUTING.md: each example is short and complete, and its commands succeed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
SECTIONS = dict(re.findall(r"^## (Add .*?)\n(.*?)(?=^## )", TEXT, re.M | re.S))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("contributing")


def test_there_is_a_section_for_each_kind():
    words = [name.split()[-1] for name in SECTIONS]
    assert words == ["task", "model", "attention", "edit", "measure", "study"]


@pytest.mark.parametrize("name", SECTIONS)
def test_an_example_runs_as_it_stands(name, folder):
    """Runs them in the order of the text: a later example may read an earlier run."""
    (code,) = re.findall(r"```python\n(.*?)```", SECTIONS[name], re.S)
    assert len(code.splitlines()) < 40, f"{name} is too long"
    first, rest = code.split("\n", 1)
    (folder / first.removeprefix("# ")).write_text(rest)
    (commands,) = re.findall(r"```sh\n(.*?)```", SECTIONS[name], re.S)
    tools = {"icl": [sys.executable, "-m", "icl"], "python": [sys.executable]}
    # As in a clone, where the packages are installed.
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    for command in commands.splitlines():
        tool, *arguments = shlex.split(command)
        done = subprocess.run(
            [*tools[tool], *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
