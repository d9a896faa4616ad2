"""The README: it is short, and after the demo its code prints what it shows."""

import re

import numpy as np
import pytest
from test_docs import outputs, printed, ROOT, TEXTS

from sweeps.figures import all_figures


README = TEXTS["README.md"]


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_its_commands_exist():
    goals = re.findall(r"make ([\w-]+)", README)
    makefile = (ROOT / "Makefile").read_text()
    assert goals
    assert [each for each in goals if f"\n{each}:" not in makefile] == []
    named = re.findall(r"icl figure ([\w/-]+)", README)
    assert named
    assert {*named} <= {*all_figures()}


@pytest.mark.slow
def test_its_code_prints_what_it_shows(demo_run):
    """After `make demo`; numbers may differ by rounding between machines."""
    folder = demo_run.parents[1]  # The code reads `runs/demo`.
    ((line, shown),) = outputs(README).items()
    found = printed(README, folder)[line]
    lines = zip(found.split("\n"), shown.split("\n"), strict=True)
    for line, wanted in lines:
        numbers = [[*map(float, re.findall(r"[\d.]+", x))] for x in (line, wanted)]
        np.testing.assert_allclose(*numbers, atol=0.101)
