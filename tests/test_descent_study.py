"""The studies of gradient descent in context: their tables, and curves of steps."""

import csv
import json
import math
import shutil

import numpy as np
import pytest

from icl import plots
from sweeps.analysis import Study
from sweeps.studies.gradient_descent import analysis, tables


def test_lines_keep_what_they_show():
    x, y = np.arange(3), np.array([3.0, math.nan, 1.0])
    line = plots.Line(x, y, y - 1, y + 1, colour="#7b3fa0", marker="+")
    other = plots.Line(x, 2.0 * x, dashed=True, width=4.0)
    figure = plots.lines({"a": {"b": line}, "c": {"b": other}}, x="steps", y="loss")
    np.testing.assert_array_equal(figure.drawn["a/b"].values, y)
    np.testing.assert_array_equal(figure.drawn["a/b/high"].values, y + 1)
    assert [*figure.drawn] == ["a/b", "a/b/low", "a/b/high", "c/b"]
    assert [*figure.drawn["c/b"].axes] == ["steps"]
    first, second = figure.axes
    (drawn,) = first.get_lines()
    np.testing.assert_array_equal(drawn.get_xdata(), [0.0, 2.0])  # Without the NaN.
    assert drawn.get_color() == "#7b3fa0"
    assert drawn.get_marker() == "+"
    assert second.get_lines()[0].get_linestyle() == "--"
    assert second.get_lines()[0].get_linewidth() == 4


def test_no_text_of_a_log_axis_is_a_formula():
    line = plots.Line(np.arange(3), np.array([0.1, 1.0, 100.0]))
    figure = plots.lines({"": {"a": line}}, x="x", y="y", scale="log")
    figure.draw_without_rendering()
    texts = [each.get_text() for each in figure.axes[0].get_yticklabels()]
    assert {"0.1", "1", "100"} <= {*texts}
    assert not any("$" in text for text in texts)


def test_where_descent_is_fitted():
    assert analysis.counts(1) == [1]
    assert analysis.counts(8) == [1, 2, 4, 8]
    assert analysis.counts(12) == [1, 2, 4, 8, 12]


@pytest.mark.slow
def test_the_table_of_orders(smoke, tmp_path):
    out = tmp_path / "results.csv"
    assert tables.main([str(smoke("order")), str(out)]) == 0
    with open(out) as file:
        rows = [*csv.DictReader(file)]
    assert tuple(rows[0]) == tables.COLUMNS
    runs = Study.read(smoke("order")).names
    assert len(rows) == len(analysis.ORDERS) * len(runs)
    for row in rows:
        noisy = row["ordering"] in ("easy_to_hard", "hard_to_easy")
        assert (row["noise_mode"] == "label_noise") == noisy
        assert bool(row["auroc"]) == noisy
        assert 0 < float(row["test_mse"]) < 10
    # Without positions, the order of the same pairs has no effect.
    pair = [
        float(row["test_mse"])
        for row in rows
        if row["exp"] == "lsa-1" and row["seed"] == "20" and row["noise_mode"] == "none"
    ]
    assert pair[0] == pytest.approx(pair[1], rel=1e-5)


@pytest.mark.slow
def test_the_metrics_of_layers(smoke, tmp_path):
    assert tables.main([str(smoke("layerwise")), str(tmp_path)]) == 0
    descent = json.loads((tmp_path / "gd_metrics.json").read_text())
    (curve,) = descent
    assert curve["steps"] == [0, 1, 2]
    assert curve["mse"][0] > curve["mse"][1] > curve["mse"][2]
    found = json.loads((tmp_path / "layerwise_metrics.json").read_text())
    for each in found:
        assert len(each["layers"]) == len(each["mse"]) == len(each["sem"])
        assert min(each["sem"]) > 0


@pytest.mark.slow
def test_an_unfinished_study_is_told(smoke, tmp_path, capsys):
    study = tmp_path / "study"
    shutil.copytree(smoke("layerwise"), study)
    names = Study.read(study).names
    shutil.rmtree(study / names[0])
    assert tables.main([str(study), str(tmp_path / "new" / "folder")]) == 0
    wanted = f"tables: {len(names) - 1} of {len(names)} runs are finished"
    assert wanted in capsys.readouterr().err
    written = tmp_path / "new" / "folder" / "layerwise_metrics.json"
    assert names[0] not in written.read_text()


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (None, "is not the folder of a study"),
        ("induction", "must be of the study order, noise or layerwise, got induction"),
        ("order", "has no finished runs; train them first"),
    ],
)
def test_a_folder_that_has_no_table(study, message, tmp_path, capsys):
    if study is not None:
        run = {"training": {"batch_size": 1, "num_sequences": 1}}
        content = {"study": study, "scale": "small", "folder": "/", "runs": {"a": run}}
        (tmp_path / "_sweep").mkdir()
        (tmp_path / "_sweep" / "study.json").write_text(json.dumps(content))
    assert tables.main([str(tmp_path), str(tmp_path / "x.csv")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"tables: {tmp_path} {message}")
    assert error.count("\n") == 1
    assert tables.main([]) == 2
