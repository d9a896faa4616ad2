import io

import numpy as np
import pytest
from PIL import Image

from icl import plots
from icl.demo import first_below, since


def learning():
    x = np.arange(0, 5001, 1000)
    losses = {"train": np.linspace(2, 0, 6), "heldout_labels": np.linspace(2, 0.5, 6)}
    return plots.learning_curves(x, losses, losses, phase_change=2500.0, threshold=0.35)


def heads():
    values = np.random.default_rng(0).random((6, 8))
    return plots.head_strengths(
        np.arange(6) * 1000, {"induction strength": values, "previous token": values}
    )


def ablation():
    change = np.array([[0.0, -0.1, np.nan], [0.02, 0.0, -0.5]])
    return plots.ablation(change)


def patterns():
    pattern = np.tril(np.full((2, 3, 5, 5), 0.2))
    return plots.attention_patterns(pattern, [list("AxByA")] * 3, ["head 0", "head 1"])


FIGURES = {f.__name__: f for f in (learning, heads, ablation, patterns)}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_is_saved_whole(name, suffix, tmp_path):
    path = plots.save(FIGURES[name](), tmp_path / f"{name}.{suffix}")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert path.read_bytes().startswith(start)
    if suffix == "png":
        pixels = np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("L"))
        assert 0.01 < np.mean(pixels < 128) < 0.9  # neither blank nor black


@pytest.mark.parametrize("name", FIGURES)
def test_axes_are_labelled(name):
    """Every panel says what is on its axes, or shares them with one that does."""
    figure = FIGURES[name]()
    axes = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert axes
    assert any(ax.get_xlabel() for ax in axes)
    assert any(ax.get_ylabel() for ax in axes)
    for bar in figure.axes:
        if bar.get_label() == "<colorbar>":
            assert bar.get_ylabel()


def test_lines_are_the_data():
    left, right = learning().axes
    drawn = {line.get_label(): line for line in left.lines}
    np.testing.assert_allclose(drawn["heldout labels"].get_xdata(), np.arange(6))
    np.testing.assert_allclose(
        drawn["heldout labels"].get_ydata(), np.linspace(2, 0.5, 6)
    )
    vertical = [
        line.get_xdata()[0] for line in right.lines if len(line.get_xdata()) == 2
    ]
    assert vertical == [2.5]


def test_the_legend_is_outside_the_data():
    figure = heads()
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert all(legend.x0 >= ax.get_window_extent().x1 for ax in figure.axes)


def test_ablation_map_shows_what_exists():
    ax = ablation().axes[0]
    texts = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in ax.texts}
    expected = {(0, 0): "0", (0, 1): "-0.100", (1, 0): "+0.020", (1, 1): "0"}
    assert texts == {**expected, (1, 2): "-0.500"}


def test_when_a_curve_crosses_a_level():
    x, y = np.array([0, 10, 20, 30]), np.array([4, 3, 1, 2], np.float32)
    assert first_below(x, y, 2.0) == 15.0  # Between the points, linearly.
    assert first_below(x, y, 4.0) == 0.0
    assert first_below(x, y, 0.5) is None


def test_a_head_forms_half_way_between_its_weakest_and_its_last():
    x = np.array([0, 10, 20, 30])
    strengths = np.array([[0.5, 0], [-0.2, 0], [0.2, 0.4], [0.8, 0.4]], np.float32)
    np.testing.assert_allclose(since(x, strengths), [20 + 10 / 6, 15], rtol=1e-6)
