"""The convolutional encoder of drawings."""

import dataclasses
import io
import json
import math
import zipfile

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from icl import cli, data
from icl.data import _conv


TINY = data.ConvEncoder(dim=16, num_training=6, steps=3)


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    """The features of `TINY` for `scribbles(8, 20)`."""
    return TINY.encode(scribbles(8, 20))


def scribbles(num_classes: int, num_exemplars: int, size: int = 15) -> np.ndarray:
    """Blurred strokes, one class each; exemplars are shifted by up to two pixels."""
    rng = np.random.default_rng(0)
    images = np.zeros((num_classes, num_exemplars, size, size), np.float32)
    for row in images:
        steps = rng.normal(size=(5, 2)).cumsum(0)
        corners = (steps - steps.mean(0)) / np.abs(steps - steps.mean(0)).max() * 4
        t = np.linspace(0, 4, 60)
        line = np.stack([np.interp(t, range(5), corners[:, i]) for i in (0, 1)], -1)
        for image in row:
            points = line + (size - 1) / 2 + rng.integers(-2, 3, 2)
            grid = np.stack(np.meshgrid(*[np.arange(size)] * 2, indexing="ij"), -1)
            distance = np.square(grid[:, :, None] - points).sum(-1).min(-1)
            image[:] = np.exp(-distance)
    return images


def nearest_class(features: np.ndarray) -> float:
    """How often an exemplar is nearest, in cosine, to the first of its own class."""
    flat = features.reshape(*features.shape[:2], -1).astype(np.float64)
    unit = flat / np.linalg.norm(flat, axis=-1, keepdims=True)
    guess = np.einsum("ced,kd->cek", unit[:, 1:], unit[:, 0]).argmax(-1)
    return (guess == np.arange(len(flat))[:, None]).mean()


def test_split_divides_the_classes():
    training, encoded = data.ConvEncoder(seed=3).split(242)
    assert (len(training), len(encoded)) == (92, 150)
    assert sorted([*training, *encoded]) == list(range(242))
    assert (np.diff(training) > 0).all()
    assert (np.diff(encoded) > 0).all()
    other = data.ConvEncoder(seed=4).split(242)[0]
    # Random draws: the expected overlap of two of them is 92 * 92 / 242 = 35.
    assert 20 < len(set(training) & set(other)) < 50


def test_features_have_their_shape_sign_and_unit(features):
    assert features.shape == (2, 20, 16)
    assert features.dtype == np.float32
    assert (features >= 0).all()
    assert (features == 0).any()
    assert 0.2 < (features**2).mean() < 5


def test_the_unit_is_that_of_the_training_classes():
    """If the encoded classes copy the training classes, their mean square is 1."""
    training, encoded = TINY.split(12)
    images = np.empty((12, 20, 15, 15), np.float32)
    images[training] = images[encoded] = scribbles(6, 20)
    assert (TINY.encode(images) ** 2).mean() == pytest.approx(1, abs=1e-4)


def test_the_settings_decide_the_bits(features):
    np.testing.assert_array_equal(features, TINY.encode(scribbles(8, 20)))
    other = dataclasses.replace(TINY, seed=1).encode(scribbles(8, 20))
    assert (other != features).any()


def test_encoded_classes_do_not_train(features):
    """A drawing's features do not depend on the other drawings of encoded classes."""
    images = scribbles(8, 20)
    training, encoded = TINY.split(8)
    images[encoded, 1:] = 1 - images[encoded, 1:]
    changed = TINY.encode(images)
    np.testing.assert_array_equal(changed[:, 0], features[:, 0])
    assert (changed[:, 1:] != features[:, 1:]).any()
    images = scribbles(8, 20)
    images[training[0]] = 1 - images[training[0]]
    assert (TINY.encode(images) != features).any()


def test_new_drawings_are_nearer_to_their_class_than_in_pixels():
    images = scribbles(40, 6)
    config = data.ConvEncoder(dim=64, num_training=25, steps=150)
    encoded = config.split(40)[1]
    assert nearest_class(images[encoded]) < 0.3  # measured once: 0.23; chance is 0.07
    assert nearest_class(config.encode(images)) > 0.35  # measured once: 0.49


@pytest.mark.parametrize("size", [1, 5, 8])
def test_a_convolution_is_that_of_its_formula(getkey, size):
    layer = _conv._Convolution(2, 4, key=getkey())
    x = np.random.default_rng(0).normal(size=(size, size, 2)).astype(np.float32)
    weight = np.asarray(layer.weight, np.float64).reshape(3, 3, 2, 4)
    half = math.ceil(size / 2)
    sums = np.zeros((half, half, 4))
    for i, j in np.ndindex(half, half):
        for u, v in np.ndindex(3, 3):
            row, column = 2 * i + u - 1, 2 * j + v - 1
            if 0 <= row < size and 0 <= column < size:
                sums[i, j] += x[row, column] @ weight[u, v]
    expected = np.maximum((sums - sums.mean()) / np.sqrt(sums.var() + 1e-5), 0)
    np.testing.assert_allclose(layer(jnp.asarray(x)), expected, atol=1e-5)


def test_moved_drawings_keep_their_place_within_bounds(getkey):
    """The centre of a blot moves as a small affine map predicts."""
    image = np.zeros((28, 28), np.float32)
    image[13:15, 13:15] = 1
    centres = []
    for _ in range(20):
        moved = np.asarray(_conv._moved(jnp.asarray(image), getkey()))
        assert 0 <= moved.min() <= moved.max() <= 1
        mass = moved / moved.sum()
        centres.append([mass.sum(1) @ np.arange(28), mass.sum(0) @ np.arange(28)])
    away = np.array(centres) - 13.5
    assert np.abs(away).max() < 3.5  # two pixels, plus the linear map's part
    assert away.std(0).min() > 0.5


def test_too_few_characters():
    with pytest.raises(
        ValueError, match="^num_training .* the number of classes, 6, .* got 6"
    ):
        TINY.encode(scribbles(6, 2))
    assert len(TINY.split(7)[1]) == 1


@pytest.fixture
def characters(tmp_path):
    """A zip with the layout of Omniglot's and 8 characters."""
    file = tmp_path / "small.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for number, row in enumerate(scribbles(8, 20)):
            for drawer, image in enumerate(row):
                paper = np.kron(image < 0.5, np.ones((7, 7))) * 255
                buffer = io.BytesIO()
                Image.fromarray(paper.astype(np.uint8)).convert("1").save(buffer, "PNG")
                name = f"small/A/character{number:02}/{number:04}_{drawer + 1:02}.png"
                archive.writestr(name, buffer.getvalue())
    return file


def test_the_file_holds_only_characters_that_did_not_train(characters, tmp_path):
    out = tmp_path / "conv.h5"
    shape = data.make_omniglot([characters], out, size=15, encoder=TINY)
    assert shape == (2, 20, 16)
    names, images = data.read_omniglot([characters], size=15)
    with h5py.File(out) as opened:
        assert list(opened) == ["conv", "names"]
        np.testing.assert_array_equal(opened["conv"], TINY.encode(images))
        written = opened["names"].asstr()[...].tolist()
        attributes = dict(opened["conv"].attrs)
    assert sorted([*written, *attributes["encoder_trained_on"]]) == names
    assert written == [names[k] for k in TINY.split(8)[1]]
    assert data.ConvEncoder(**json.loads(attributes["encoder"])) == TINY
    assert attributes["size"] == 15
    assert "scale" not in attributes
    assert data.HDF5Classes(str(out)).load().shape == shape


def test_nothing_is_trained_in_vain(characters, tmp_path, monkeypatch):
    monkeypatch.setattr(_conv, "_train", None)
    out = tmp_path / "conv.h5"
    out.write_text("mine")
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        data.make_omniglot([characters], out, encoder=TINY)
    assert out.read_text() == "mine"


def call(capsys, *arguments) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "omniglot", *map(str, arguments)])
    return stop.value.code, capsys.readouterr().err


def test_command_line(characters, tmp_path, capsys, monkeypatch):
    out = tmp_path / "conv.h5"
    monkeypatch.setattr(data, "ConvEncoder", lambda: TINY)
    options = ["--encoder", "conv", "--size", 15, "--out", out]
    assert call(capsys, characters, *options) == (0, "")
    with h5py.File(out) as opened:
        assert opened["conv"].shape == (2, 20, 16)
