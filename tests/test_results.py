"""The table of the papers' numbers, made from the results that figures leave."""

import dataclasses
import functools
import importlib.util
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from icl import plots
from sweeps.figures import (
    ACCURACY,
    all_figures,
    all_published,
    Judged,
    Measured,
    Published,
    Row,
    SEQUENCES,
    table_of,
    Within,
)
from sweeps.figures._notebook import _number
from sweeps.figures._table import as_json


FOLDER = Path(__file__).parents[1] / "notebooks"
PUBLISHED = [each for paper in all_published().values() for each in paper]


@functools.cache
def results():
    spec = importlib.util.spec_from_file_location("results", FOLDER / "_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRAWN = plots.bars({"": {"": np.ones(1)}}, [""], label="", of="")


def found(**changes):
    """The command's results for a figure with two rows and three seeds."""
    figure = dataclass_of(**changes)
    values = {"a": np.array([0.9, 0.8, 0.7]), "b": np.array([1e5, math.inf, math.inf])}
    judged = Judged(figure, Measured(values, DRAWN), (5, 6, 7))
    return as_json(judged, "small", ["about"], chosen_seeds=False, own_data=False)


def dataclass_of(**changes):
    return dataclasses.replace(
        all_figures()["induction/4b"],
        rows={"a": Row(0.82, ACCURACY), "b": Row(2e5, SEQUENCES)},
        claims=(Within("a", low=0.75),),
        fresh=(6, 7),
        **changes,
    )


def test_a_section_of_the_file():
    lines = [*results().section(json.loads(json.dumps(found())))]
    assert "Judged on the seeds 6, 7; the table is over 3 seeds.\n" in lines
    assert "- a above 0.75: **not reproduced** (in 1 of 2 seeds)" in lines
    far = "farthest: b is not reached, not 200,000"
    assert (
        f"- in short: 0 of 1 claims hold; 1 of 2 numbers are in range; {far}" in lines
    )
    (a,) = (line for line in lines if line.startswith("| a "))
    assert a.startswith("| a | 0.82 | 0.8 | 0.")
    assert a.endswith("| holds |")
    (b,) = (line for line in lines if line.startswith("| b "))
    assert b == "| b | 200,000 | in 1 of 3 seeds only | – | not reproduced |"


def test_bars_in_a_cell_are_escaped():
    assert results().in_row("|cosine|", "0.7") == r"| \|cosine\| | 0.7 |"


def test_a_figure_without_claims_and_targets_says_so():
    rows = {"a": {"value": 0.9, "target": None, "unit": "accuracy", "verdict": None}}
    told = results().Tally.of({**found(), "claims": {}, "rows": rows})
    assert str(told) == "not judged: the paper gives no number"


def test_only_whole_studies_are_kept(tmp_path, monkeypatch):
    module = results()
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    drawn = tmp_path / "figures"
    drawn.mkdir()
    for name, change in {
        "whole": {},
        "published": {"scale": "paper", "verdict": "holds"},
        "smoke": {"scale": "smoke"},
        "some": {"chosen": True},
    }.items():
        (drawn / f"{name}.json").write_text(json.dumps(found() | change))
    assert module.keep([drawn]) == 2
    kept = {file.name for file in module.KEPT.iterdir()}
    assert kept == {"whole.json", "published.json"}
    text = module.text()
    assert "## induction/4b" in text
    where = "| one head throughout training | `induction/4b` |"
    assert f"{where} 0 of 1 | 1 of 2 | at the published size; farthest: b" in text
    assert "`induction/A7` | – | – | absent: not drawn" in text
    (drawn / "old.json").write_text('{"scale": "small"}')
    with pytest.raises(SystemExit, match=r"old.json: it lacks .*; draw that figure"):
        module.keep([drawn])


def test_an_absent_figure_says_what_is_undecided():
    told = {"c above 1": {"verdict": "absent", "seeds": 1, "of": 2}}
    undecided = found() | {"verdict": "absent", "claims": told}
    rows = [*results().coverage([undecided])]
    (row,) = (row for row in rows if "`induction/4b`" in row)
    assert "| – | 1 of 2 | undecided: “c above 1”; farthest:" in row


@pytest.mark.parametrize(
    ("value", "target", "unit", "told"),
    [
        (3e5, 2e5, "sequences", "a is 1.5 times the paper's"),
        (0.7, 0.9, "accuracy", "a is 0.7, not 0.9"),
        (-1.0, 2.0, "nats", "a is -1, not 2"),
        # No seed got so far: there is nothing to compare.
        (None, 0.5, "accuracy", "b is 1.3 times the paper's"),
    ],
)
def test_the_number_that_is_farthest(value, target, unit, told):
    near = {"value": 1.3, "target": 1.0, "unit": "nats", "verdict": "differs"}
    far = {"value": value, "target": target, "unit": unit, "verdict": "differs"}
    held = {"value": 9.0, "target": 1.0, "unit": "nats", "verdict": "holds"}
    rows = {"b": near, "a": far, "c": held}
    assert results().farthest(rows) == f"farthest: {told}"


def test_each_figure_is_of_a_published_one():
    names = {each.figure for each in PUBLISHED if each.figure}
    assert names == {*all_figures()}
    stems = {path.stem for path in FOLDER.glob("[0-9]*.py")}
    assert {each.notebook for each in PUBLISHED if each.notebook} <= stems
    for each in PUBLISHED:
        assert bool(each.figure) != bool(each.reason), each


def test_a_table_of_what_was_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv("ICL_RUNS", str(tmp_path))
    assert table_of("induction/4b").columns == ("not drawn", "command")
    (tmp_path / "figures").mkdir()
    file = tmp_path / "figures/induction-4b-small.json"
    file.write_text(json.dumps(found()))
    table = table_of("induction/4b")
    assert table.columns[1:] == ("paper", "ours: 3 seeds", "verdict")
    a, b, claim, last = table.texts
    assert (a[0], a[1], a[3]) == ("a", "0.82", "holds")
    assert a[2].startswith("0.8 [0.")
    assert b == ["b", "200,000", "reached in 1 of 3 seeds", "not reproduced"]
    assert claim == ["a above 0.75", "–", "1 of 2 seeds", "not reproduced"]
    assert last[-1] == "not reproduced"


def test_a_picture_is_kept_small(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (600, 1800, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    with Image.open(io.BytesIO(results().small(tmp_path / "large.png"))) as kept:
        assert kept.size == (900, 300)


def test_a_kept_colour_map_keeps_its_order(tmp_path):
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2)
    Image.fromarray(np.tile(ramp, (40, 1, 1))).save(tmp_path / "ramp.png")
    with Image.open(io.BytesIO(results().small(tmp_path / "ramp.png"))) as kept:
        row = np.asarray(kept)[0, :, 0].astype(int)
    assert np.all(np.diff(row) == 1)


def test_a_published_figure_is_judged_by_its_own_claims():
    """Every claim and every row belongs to some published figure."""
    for name, figure in all_figures().items():
        parts = [each for each in PUBLISHED if each.figure == name]
        for row in figure.rows:
            assert any(each.has(row) for each in parts), (name, row)
        claims = {text for each in parts for text in each.claims()}
        assert claims == {str(claim) for claim in figure.claims}, name
    result = found()
    only = Published("4b", "one head", "induction/4b", rows=("b",))
    part = results().part(result, only)
    assert [*part["rows"]] == ["b"]
    assert not part["claims"]


def test_kept_results_are_judged_by_todays_rules():
    for kept in results().kept():
        name, scale = kept["figure"], kept["scale"]
        assert name in all_figures(), f"{name} is no figure any more"
        figure = all_figures()[name].at(scale)
        values = {
            row: np.array([*map(_number, found["measured"])])
            for row, found in kept["rows"].items()
            if found["measured"]
        }
        seeds = tuple(kept["seeds"]) or (0,)
        judged = Judged(figure, Measured(values, DRAWN), seeds)
        told = as_json(judged, scale, (), chosen_seeds=False, own_data=False)
        assert told["claims"] == kept["claims"], name
        for row, found in told["rows"].items():
            there = {"verdict": None, "target": None, **kept["rows"].get(row, {})}
            assert found["target"] == there["target"], (name, row)
            assert found["verdict"] == there["verdict"], (name, row)
