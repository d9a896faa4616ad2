"""The README: its code prints what it shows, and its links lead somewhere."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from sweeps.figures import all_figures


ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_its_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#\s]+)", README)
    local = [each for each in targets if not each.startswith("https:")]
    assert len(local) > 10
    assert [each for each in local if not (ROOT / each).exists()] == []


def test_its_commands_exist():
    goals = re.findall(r"make ([\w-]+)", README)
    makefile = (ROOT / "Makefile").read_text()
    assert goals
    assert [each for each in goals if f"\n{each}:" not in makefile] == []
    named = re.findall(r"icl figure ([\w/-]+)", README)
    assert named
    assert {*named} <= {*all_figures()}


@pytest.mark.slow
def test_its_code_prints_what_it_shows(demo_run, monkeypatch):
    """After `make demo`; numbers may differ by rounding between machines."""
    monkeypatch.chdir(demo_run.parents[1])  # The code reads `runs/demo`.
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    lines = zip(printed.getvalue().split("\n"), shown.split("\n"), strict=True)
    for line, wanted in lines:
        numbers = [[*map(float, re.findall(r"[\d.]+", x))] for x in (line, wanted)]
        np.testing.assert_allclose(*numbers, atol=0.101)
