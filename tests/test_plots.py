import csv
import functools
import math

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import style as styles
from matplotlib.collections import LineCollection
from PIL import Image
from scipy import stats

from icl import plots
from icl.experiments.events import first_below, since
from icl.plots import change_maps, recovered_maps
from icl.plots._panels import MOST_TRACES
from icl.plots._style import colours, line_style


X = np.arange(0, 5001, 1000)
RNG = np.random.default_rng(0)
VALUES = RNG.random((6, 40))
LABELS = np.array(["one", "two", "three", "four"])[np.arange(40) % 4]
STRENGTHS = RNG.random((6, 2, 8))
STRENGTHS[:, 0, 5:] = np.nan  # A layer with fewer heads.
ATTENTION = np.tril(RNG.random((6, 2, 3, 5, 5)))
TOKENS = ["exemplar 0", "label 0", "exemplar 1", "label 1", "query"]


LOSSES = {"train": np.linspace(2, 0, 6), "heldout_labels": np.linspace(2, 0.5, 6)}
OF_SEEDS = {"train": VALUES[:, :5], "heldout_labels": VALUES[:, 5:10]}
CHANGE = np.array([[0.0, -0.1, np.nan], [0.02, 0.0, -0.5]])
KINDS = {"correct label": STRENGTHS, "incorrect labels": 1 - STRENGTHS}
BY_LABEL = {"groups": LABELS, "label": "loss (nats)", "by": "label pair"}
NUMBERS = {"groups": VALUES.mean(0), "label": "loss (nats)", "by": "similarity"}

CURVES = {
    "learning": lambda: plots.learning_curves(
        X, LOSSES, LOSSES, phase_change=2500.0, threshold=0.35
    ),
    "learning_of_seeds": lambda: plots.learning_curves(
        X, OF_SEEDS, OF_SEEDS, band=plots.Confidence()
    ),
    "heads": lambda: plots.head_strengths(
        X, {"induction strength": VALUES[:, :12], "previous token": VALUES[:, 12:24]}
    ),
    "by_label": lambda: plots.traces(X, VALUES, threshold=0.5, **BY_LABEL),
    "by_number": lambda: plots.traces(X, VALUES, band=plots.Quantiles(), **NUMBERS),
    "in_panels": lambda: plots.traces(
        X, {"train": VALUES, "held out": VALUES[:, ::-1]}, **BY_LABEL
    ),
    "attention": lambda: plots.heads_over_time(X, KINDS, phase_change=2500.0),
    "attention_by_group": lambda: plots.heads_over_time(
        X, VALUES[:, None, None].repeat(2, 2), groups=LABELS, by="pair"
    ),
    "average": lambda: plots.average_strength(X, STRENGTHS),
    "pairs": lambda: plots.token_pairs(X, ATTENTION, TOKENS),
}
FIGURES = CURVES | {
    "ablation": lambda: plots.ablation(CHANGE),
    "patterns": lambda: plots.attention_patterns(
        np.tril(np.full((3, 2, 5, 5), 0.2)), [list("AxByA")] * 3, ["head 0", "head 1"]
    ),
    "maps": lambda: plots.token_maps(ATTENTION[-1], TOKENS),
    "similarity": lambda: plots.integral_by_similarity(
        X, VALUES, np.linspace(0.2, 0.9, 40)
    ),
}


@functools.cache
def drawn(name):
    return FIGURES[name]()


# Every figure


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_labelled_and_saved_with_its_data_beside(name, tmp_path):
    figure = drawn(name)
    path = plots.save(figure, tmp_path / f"{name}.png")
    files = {file.name for file in tmp_path.iterdir()}
    assert files == {path.name, f"{name}.h5"}
    pixels = np.asarray(Image.open(path).convert("L"))
    assert 0.005 < np.mean(pixels < 128) < 0.9  # neither blank nor black
    found = plots.read_drawn(tmp_path / f"{name}.h5")
    assert list(found) == list(figure.drawn)
    for key, wanted in figure.drawn.items():
        assert found[key].label == wanted.label
        np.testing.assert_array_equal(found[key].values, wanted.values)
        assert list(found[key].axes) == list(wanted.axes)
        for axis, where in wanted.axes.items():
            np.testing.assert_array_equal(found[key].axes[axis], where)
    axes = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert any(ax.get_xlabel() for ax in axes)
    assert any(ax.get_ylabel() for ax in axes)
    assert all(bar.get_ylabel() for bar in figure.axes if bar not in axes)


@pytest.mark.parametrize("name", CURVES)
def test_curves_are_the_means_and_nothing_covers_them(name):
    figure = drawn(name)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert all(legend.x0 >= ax.get_window_extent().x1 for ax in panels)
    tight, whole = figure.get_tightbbox(), figure.bbox_inches
    assert min(tight.x0, tight.y0) > -0.02  # Nothing is cut off.
    assert tight.x1 < whole.x1 + 0.02
    assert tight.y1 < whole.y1 + 0.02
    kept = [q.values for key, q in figure.drawn.items() if key.endswith("mean")]
    panels = [ax for ax in panels if ax.lines]
    for ax, means in zip(panels, kept, strict=True):
        thick = [line for line in ax.lines if line.get_zorder() == 3]
        for line, mean in zip(thick, means.T, strict=True):
            np.testing.assert_allclose(line.get_xdata(), X / 1e3)
            np.testing.assert_allclose(line.get_ydata(), mean)


@pytest.mark.parametrize("name", ["by_label", "maps"])
@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_is_saved_for_print(name, suffix, tmp_path):
    for k in range(2):
        plots.save(FIGURES[name](), tmp_path / f"{k}.{suffix}")
    first, second = ((tmp_path / f"{k}.{suffix}").read_bytes() for k in range(2))
    assert first.startswith({"svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    if suffix == "pdf":  # Fonts are embedded, as outlines that printers know.
        assert b"/FontFile2" in first
        assert b"/Type3" not in first
    else:  # Text stays text.
        assert b"<text" in first
    assert first == second


def test_the_data_as_a_tidy_table(tmp_path):
    plots.save(drawn("learning"), tmp_path / "a.svg", data="csv")
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["quantity", "sequences seen", "evaluation set", "value"]
    wanted = dict(zip(X, np.linspace(2, 0.5, 6), strict=True))
    got = {
        float(row["sequences seen"]): float(row["value"])
        for row in rows
        if row["quantity"] == "loss/mean" and row["evaluation set"] == "heldout labels"
    }
    assert got == pytest.approx(wanted)
    (mark,) = (row for row in rows if row["quantity"] == "phase change")
    assert (mark["sequences seen"], float(mark["value"])) == ("", 2500.0)


def test_saving_again_replaces_and_saving_over_others_is_refused(tmp_path):
    figure = drawn("ablation")
    for data in ("h5", "csv"):
        plots.save(drawn("average"), tmp_path / "a.png", data=data)
        plots.save(figure, tmp_path / "a.png", data=data)
    assert list(plots.read_drawn(tmp_path / "a.h5")) == list(figure.drawn)
    for name, data in (("log.png", "h5"), ("table.pdf", "csv")):
        there = (tmp_path / name).with_suffix(f".{data}")
        there.write_text("a run's log\n")
        with pytest.raises(ValueError, match="in the way of a figure's data"):
            plots.save(figure, tmp_path / name, data=data)
        assert not (tmp_path / name).exists()
        assert there.read_text() == "a run's log\n"
    with pytest.raises(ValueError, match="is not a figure's data"):
        plots.read_drawn(tmp_path / "log.h5")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.jpeg", "ends in .png, .pdf, .svg, got 'a.jpeg'"),
        ("a.PNG", "did you mean '.png'"),
        ("none/a.png", "no folder .*none for a.png"),
    ],
)
def test_what_cannot_be_saved(name, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plots.save(drawn("learning"), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_style_sheet_is_one_that_matplotlib_knows():
    with styles.context("icl.plots.paper"):
        outside = dict(mpl.rcParams)
    with plots.style():
        assert dict(mpl.rcParams) == outside | {"text.parse_math": False}
        assert mpl.rcParams["pdf.fonttype"] == 42
    assert mpl.rcParams["pdf.fonttype"] != 42  # Only within the context.


# Linear sRGB as seen without one kind of cones (Machado, Oliveira & Fernandes 2009).
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216]]
    + [[-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413]]
    + [[-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602]]
    + [[0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_are_told_apart_whatever_the_eye(kind):
    rgb = np.array([mpl.colors.to_rgb(colour) for colour in colours()])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(BLINDNESS[kind]), 0, 1)
    xyz = seen @ np.transpose(
        [
            [0.4124, 0.3576, 0.1805],
            [0.2126, 0.7152, 0.0722],
            [0.0193, 0.1192, 0.9505],
        ]
    )
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    lab = np.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1
    )
    distance = np.linalg.norm(lab[:, None] - lab, axis=-1)
    distance[np.diag_indices(len(lab))] = np.inf
    assert distance.min() > 15  # 2.3 is just noticeable.
    assert lab[:, 0].max() < 80  # No colour is faint on white.
    looks = {(look["color"], look["ls"]) for look in map(line_style, range(32))}
    assert len(looks) == 32


# Traces


def test_means_of_groups_leave_out_what_is_not_there():
    values = VALUES.copy()
    values[2, 0], values[3, :], values[4, 1] = np.nan, np.nan, np.inf
    figure = plots.traces(X, values, groups=LABELS)
    mean = figure.drawn["mean"]
    assert mean.axes["group"].tolist() == ["one", "two", "three", "four"]
    for k, name in enumerate(["one", "two", "three", "four"]):
        for row in (0, 1, 2, 4, 5):
            group = values[row, LABELS == name]
            wanted = group[np.isfinite(group)].mean()
            assert mean.values[row, k] == pytest.approx(wanted)
    assert np.isnan(mean.values[3]).all()
    assert figure.drawn["traces"].values.shape == (6, 40)


def test_a_median_is_not_moved_by_a_trace_that_failed():
    values = np.tile([[1.0, 2.0, 3.0, 1e6]], (6, 1))
    figure = plots.traces(X, values, middle="median")
    np.testing.assert_array_equal(figure.drawn["median"].values, np.full((6, 1), 2.5))


@pytest.mark.parametrize(("last", "from_zero"), [(0.01, True), (1.2, False)])
def test_an_axis_of_losses_starts_at_0_unless_that_flattens_them(last, from_zero):
    found = plots.learning_curves(X, {"train": np.linspace(2, last, 6)})
    assert bool(found.axes[0].get_ylim()[0] == 0) is from_zero


@pytest.mark.parametrize(
    ("low", "high", "written"), [(0.11, 0.7, ["0.2", "0.3"]), (0.01, 1.5, ["0.1", "1"])]
)
def test_a_short_logarithmic_axis_has_numbers(low, high, written):
    line = plots.Line(np.arange(2), np.array([low, high]))
    found = plots.lines({"": {"a": line}}, x="x", y="y", scale="log")
    found.canvas.draw()
    axis = found.axes[0].yaxis
    texts = {t.get_text() for t in axis.get_ticklabels(which="both")}
    assert texts >= {*written}
    assert not any("e" in text or "$" in text for text in texts)


def test_an_event_that_never_came_is_an_arrow():
    figure = plots.intervals({"ours": {"a": 1.0, "b": math.inf}}, label="steps")
    (ax,) = figure.axes
    assert [(text.get_text(), text.xy[1]) for text in ax.texts] == [("never →", 1.0)]
    (dots,) = (line for line in ax.lines if line.get_marker() == "D")
    np.testing.assert_array_equal(dots.get_xdata(), [1.0, math.nan])


def test_every_trace_is_a_line_of_one_collection_in_its_groups_colour():
    (ax,) = drawn("by_label").axes
    (lines,) = (c for c in ax.collections if isinstance(c, LineCollection))
    segments = lines.get_segments()
    ends = {round(segment[-1, 1], 9): k for k, segment in enumerate(segments)}
    names = dict(zip(["one", "two", "three", "four"], colours(), strict=False))
    colours_ = lines.get_colors()
    for trace in range(40):
        k = ends[round(VALUES[-1, trace], 9)]
        np.testing.assert_allclose(segments[k][:, 1], VALUES[:, trace])
        wanted = mpl.colors.to_rgb(names[LABELS[trace]])
        np.testing.assert_allclose(colours_[k][:3], wanted)


def test_numbers_have_a_colour_bar_and_one_mean():
    figure = drawn("by_number")
    ax, bar = figure.axes
    assert bar.get_ylabel() == "similarity"
    low, high = VALUES.mean(0).min(), VALUES.mean(0).max()
    np.testing.assert_allclose(bar.get_ylim(), (low, high))
    np.testing.assert_allclose(figure.drawn["mean"].values[:, 0], VALUES.mean(1))
    np.testing.assert_array_equal(figure.drawn["group"].values, VALUES.mean(0))
    (lines,) = (c for c in ax.collections if isinstance(c, LineCollection))
    assert len(np.unique(lines.get_colors(), axis=0)) > 20


def test_integers_are_labels_until_they_are_too_many():
    few = plots.traces(X, VALUES, groups=np.arange(40)[::-1] % 12)
    assert few.drawn["mean"].axes["group"].tolist() == [str(k) for k in range(12)]
    many = plots.traces(X, VALUES, groups=np.arange(40))
    assert many.drawn["mean"].values.shape == (6, 1)
    with pytest.raises(ValueError, match="at most 32 labels .* got 40"):
        plots.traces(X, VALUES, groups=[f"pair {k}" for k in range(40)])


def test_of_too_many_traces_some_of_each_group_are_drawn_and_all_count():
    values = RNG.random((3, 9000)).astype(np.float32)
    groups = np.repeat(["rare", "common"], [900, 8100])
    figure = plots.traces(np.arange(3), values, groups=groups)
    traces = figure.drawn["traces"]
    assert traces.values.shape == (3, MOST_TRACES)
    assert traces.values.dtype == np.float32
    shown = traces.axes["sequence"]
    np.testing.assert_array_equal(traces.values, values[:, shown])
    assert np.mean(groups[shown] == "rare") == pytest.approx(0.1, abs=0.001)
    whole = values.astype(float)
    wanted = [whole[:, groups == name].mean(1) for name in ("rare", "common")]
    np.testing.assert_allclose(
        figure.drawn["mean"].values, np.stack(wanted, 1), rtol=1e-12
    )
    assert "2,000 of 9,000" in figure.legends[0].get_texts()[2].get_text()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_confidence_is_students(level):
    values = RNG.normal(size=(4, 5))
    values[1, 3] = np.nan
    values[2, 1:] = np.nan
    low, high = plots.Confidence(level).bounds(values)
    for row in (0, 1, 3):
        known = values[row][~np.isnan(values[row])]
        wanted = stats.t.interval(
            level, len(known) - 1, loc=known.mean(), scale=stats.sem(known)
        )
        np.testing.assert_allclose((low[row], high[row]), wanted, rtol=1e-10)
    assert np.isnan([low[2], high[2]]).all()  # One seed has no interval.


def test_quantiles_are_numpys():
    low, high = plots.Quantiles(0.1, 0.9).bounds(VALUES)
    np.testing.assert_allclose(low, np.quantile(VALUES, 0.1, axis=1))
    np.testing.assert_allclose(high, np.quantile(VALUES, 0.9, axis=1))


def test_a_band_is_said_in_the_legend_and_kept():
    figure = drawn("learning_of_seeds")
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("95% confidence" in text and "seeds" in text for text in texts)
    low, high = plots.Confidence().bounds(VALUES[:, 5:10])
    np.testing.assert_allclose(figure.drawn["loss/low"].values[:, 1], low)
    np.testing.assert_allclose(figure.drawn["loss/high"].values[:, 1], high)


@pytest.mark.parametrize(("last", "unit"), [(1e6, "thousands"), (6e7, "millions")])
def test_sequences_have_a_readable_unit(last, unit):
    figure = plots.traces(np.array([0, last]), np.ones((2, 3)), phase_change=last / 2)
    (ax,) = figure.axes
    assert ax.get_xlabel() == f"sequences seen ({unit})"
    scale = {"thousands": 1e3, "millions": 1e6}[unit]
    marks = [line.get_xdata() for line in ax.lines if line.get_linestyle() == "--"]
    assert marks == [[last / 2 / scale] * 2]


# Kinds


def test_heads_that_a_layer_lacks_are_left_out():
    found = drawn("attention").drawn["incorrect labels/layer 0/mean"]
    assert found.axes["head"].tolist() == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose(found.values, 1 - STRENGTHS[:, 0, :5])
    means = drawn("average").drawn["mean"]
    np.testing.assert_allclose(means.values, np.nanmean(STRENGTHS, axis=2))


def test_each_pair_of_tokens_is_the_mean_of_the_heads():
    figure = drawn("pairs")
    panels = {key for key in figure.drawn if key.endswith("mean")}
    assert len(panels) == 2 * 4  # Two layers, four tokens that see another token.
    found = figure.drawn["layer 1/from 3 label 1/mean"]
    assert found.axes["attended token"].tolist() == [
        "0 exemplar 0",
        "1 label 0",
        "2 exemplar 1",
        "3 label 1",
    ]
    np.testing.assert_allclose(found.values, ATTENTION[:, 1, :, 3, :4].mean(1))


def test_a_token_without_a_name_is_its_place():
    figure = plots.token_pairs(X, ATTENTION, [*map(str, range(len(TOKENS)))])
    assert "layer 0/from 3/mean" in figure.drawn
    maps = plots.token_maps(ATTENTION[-1], ["exemplar 0", *"1234"])
    axis = maps.drawn["attention"].axes["from"]
    assert axis[:2].tolist() == ["0 exemplar 0", "1"]


def test_recorded_patterns_are_drawn_as_they_are():
    recorded = np.random.default_rng(0).dirichlet(np.ones(5), (3, 2, 5))
    figure = plots.attention_patterns(recorded)
    maps = [ax.images[0].get_array() for ax in figure.axes[:6]]
    # Row by row: a head, with a column for each sequence.
    np.testing.assert_array_equal(maps[1], recorded[1, 0])
    np.testing.assert_array_equal(maps[3], recorded[0, 1])
    assert [ax.get_ylabel() for ax in figure.axes[:6:3]] == [
        "head 0\nfrom token",
        "head 1\nfrom token",
    ]
    one = plots.attention_patterns(recorded[2])
    np.testing.assert_array_equal(one.axes[1].images[0].get_array(), recorded[2, 1])


def test_the_integral_is_the_trapezoids_over_the_range():
    x = np.array([0.0, 100, 400])  # Unevenly spaced.
    slope = np.linspace(1, 3, 30)
    values = x[:, None] * slope + 5.0
    values[1, 7] = np.nan
    of = np.linspace(0, 1, 30)
    figure = plots.integral_by_similarity(x, values, of, bins=4)
    kept = np.delete(np.arange(30), 7)
    found = figure.drawn["integral"]
    np.testing.assert_array_equal(found.axes["sequence"], kept)
    # The mean over a line is its midpoint.
    np.testing.assert_allclose(found.values, 200 * slope[kept] + 5)
    means, centres = (figure.drawn[key].values for key in ("mean", "mean similarity"))
    assert len(means) == 4
    np.testing.assert_allclose(means, 200 * (1 + 2 * centres) + 5)
    counts = np.histogram(of[kept], np.quantile(of[kept], [0, 0.25, 0.5, 0.75, 1]))[0]
    parts = np.split(found.values, np.cumsum(counts)[:-1])
    np.testing.assert_allclose(means, [part.mean() for part in parts])


def test_a_mean_outside_of_the_middle_of_its_bin_is_drawn():
    values = np.ones((2, 1)) * [0.0, 0, 0, 0, 0, 0, 0, 100]
    figure = plots.integral_by_similarity(np.arange(2), values, np.ones(8), bins=2)
    low, high, mean = (figure.drawn[key].values for key in ("low", "high", "mean"))
    assert (low, high, mean) == (0, 0, 12.5)
    lines = figure.axes[0].lines
    assert any(line.get_ydata().tolist() == [12.5] for line in lines)


def test_ablation_map_shows_what_exists():
    ax = drawn("ablation").axes[0]
    texts = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in ax.texts}
    expected = {(0, 0): "0", (0, 1): "-0.100", (1, 0): "+0.020", (1, 1): "0"}
    assert texts == {**expected, (1, 2): "-0.500"}


INTEGRAL = functools.partial(
    plots.integral_by_similarity, sequences=X, values=VALUES, similarity=np.ones(40)
)
REFUSED = {
    r"\[checkpoint=6, trace\], got shape \[5, 40\]": lambda: plots.traces(
        X, VALUES[:5]
    ),
    "'b' must have at least one trace": lambda: plots.traces(
        X, {"a": VALUES, "b": VALUES[:, :0]}
    ),
    r"groups of values .*\[trace=40\], got shape \[3\]": lambda: plots.traces(
        X, VALUES, groups=LABELS[:3]
    ),
    r"patterns must be \[sequence, .*, got shape \(5, 5\)": lambda: (
        plots.attention_patterns(np.ones((5, 5)))
    ),
    "at most 64 maps, got 33 sequences of 2 heads": lambda: plots.attention_patterns(
        np.ones((33, 2, 5, 5))
    ),
    "heads: expected 2 names, got 1": lambda: plots.attention_patterns(
        np.ones((2, 5, 5)), None, ["a"]
    ),
    r"expected 5 names for each of 1 .*, got \[3\]": lambda: plots.attention_patterns(
        np.ones((2, 5, 5)), ["AxB"]
    ),
    r"similarity .*\[trace=40\], got shape \[3\]": lambda: INTEGRAL(
        similarity=np.ones(3)
    ),
    "two checkpoints or more": lambda: INTEGRAL(sequences=X[:1], values=VALUES[:1]),
    "no sequence has finite values": lambda: INTEGRAL(values=VALUES * np.nan),
    "values: wanted .checkpoint, layer, head": lambda: plots.heads_over_time(X, VALUES),
    "groups: wanted one array": lambda: plots.heads_over_time(X, KINDS, groups=LABELS),
}


@pytest.mark.parametrize("message", REFUSED)
def test_arrays_that_cannot_be_drawn(message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def hatched(ax):
    """The hatched cells of a map, as (row, column)."""
    cells = (p.get_xy() for p in ax.patches if p.get_hatch())
    return {(int(y + 0.5), int(x + 0.5)) for x, y in cells}


def maps_of(values):
    """Every kind of figure with maps of numbers, made from the same numbers."""
    axes = ["layer", "head"]
    ticks = {"train": [["0", "1"], ["0", "1", "2"]]}
    by_set = {"train": values}
    whole = {"loss": {"train": 0.5}}
    return {
        "ablation": plots.ablation(values),
        "heads": plots.head_maps(by_set, rows="layer", columns="head", label="x"),
        "limits": plots.head_maps(
            by_set, rows="layer", columns="head", label="x", limits=(0.0, 1.0)
        ),
        "changes": change_maps({"loss": by_set}, whole, colours={"loss": "RdBu"}),
        "recovered": recovered_maps(by_set, axes, ticks, label="x"),
    }


@pytest.mark.parametrize(
    "kind", ["ablation", "heads", "limits", "changes", "recovered"]
)
def test_cells_without_a_number_are_hatched(kind):
    some = np.array([[0.1, np.nan, -0.2], [0.3, 0.2, np.inf]])
    expected = {"some": {(0, 1), (1, 2)}, "all": {*np.ndindex(2, 3)}, "none": set()}
    found = {"some": some, "all": some * np.nan, "none": np.ones((2, 3))}
    for name, values in found.items():
        fig = maps_of(values)[kind]
        fig.draw_without_rendering()
        ax, *bars = fig.axes
        assert hatched(ax) == expected[name]
        said = [
            text.get_text() for legend in fig.legends for text in legend.get_texts()
        ]
        assert said == (["undefined"] if expected[name] else [])
        # Without numbers there is no scale.
        assert len(bars) == (name != "all")


def test_a_long_label_of_a_colour_bar_is_within_the_figure():
    label = "cosine of what a head writes for a label and the read-out"
    maps = {f"seed {seed}": np.ones((2, 4)) for seed in range(3)}
    fig = plots.head_maps(maps, rows="layer", columns="head", label=label)
    fig.canvas.draw()
    box = fig.axes[-1].get_tightbbox()
    assert fig.bbox.contains(*box.min)
    assert fig.bbox.contains(*box.max)


def test_numbers_of_layers_are_integers():
    line = plots.Line(np.arange(3), np.array([0.1, 0.5, 0.9]))
    fig = plots.lines({"": {"a": line}}, x="layer", y="y")
    fig.canvas.draw()
    shown = {text.get_text() for text in fig.axes[0].get_xticklabels()}
    assert shown >= {"0", "1", "2"}
    assert not any("." in text for text in shown)


def test_when_a_curve_crosses_a_level():
    x, y = np.array([0, 10, 20, 30]), np.array([4, 3, 1, 2], np.float32)
    assert first_below(x, y, 2.0) == 15.0  # Between the points, linearly.
    assert first_below(x, y, 4.0) == 0.0
    assert first_below(x, y, 0.5) is None


def test_a_head_forms_half_way_between_its_weakest_and_its_last():
    x = np.array([0, 10, 20, 30])
    strengths = np.array([[0.5, 0], [-0.2, 0], [0.2, 0.4], [0.8, 0.4]], np.float32)
    np.testing.assert_allclose(since(x, strengths), [20 + 10 / 6, 15], rtol=1e-6)
