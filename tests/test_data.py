"""Sources of classes, and how Omniglot's classes are made."""

import dataclasses
import errno
import io
import json
import math
import os
import pathlib
import random
import zipfile

import h5py
import numpy as np
import pytest
from PIL import Image

from icl import data


OMNIGLOT = pathlib.Path(__file__).parents[2] / "shared" / "data" / "omniglot"
ZIPS = [OMNIGLOT / f"images_background_small{i}.zip" for i in (1, 2)]
needs_omniglot = pytest.mark.skipif(
    not all(file.is_file() for file in ZIPS), reason="Omniglot's zips are not here"
)


def assert_one_line(error: pytest.ExceptionInfo) -> None:
    assert "\n" not in str(error.value)


# --- synthetic classes ---------------------------------------------------------------


def rectified_moments(spread: float) -> tuple[float, float, float]:
    """Moments of f = relu(m + g + s e): E[f²], and E[f f'] / E[f²] between and within.

    All share m = |N(0, 1)|; g ~ N(0, 1) is a class's, and e ~ N(0, 1) an exemplar's.
    """
    m = np.linspace(0, 9, 1801)
    weight = np.exp(-(m**2) / 2)
    weight /= weight.sum()
    z = np.linspace(-8, 8, 801)
    normal = np.exp(-(z**2) / 2)
    normal /= normal.sum()
    centre = m[:, None] + z
    if spread:
        t = centre / spread
        cdf = 0.5 * (1 + np.vectorize(math.erf)(t / math.sqrt(2)))
        pdf = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
        first = centre * cdf + spread * pdf
        second = (centre**2 + spread**2) * cdf + centre * spread * pdf
    else:
        first = np.maximum(centre, 0)
        second = first**2
    square = weight @ (second @ normal)
    between = weight @ (first @ normal) ** 2
    within = weight @ (first**2 @ normal)
    return square, between / square, within / square


def cosines(features: np.ndarray) -> tuple[float, float]:
    """Mean cosine of exemplars of different classes, and of exemplars of one class."""
    unit = features.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=-1, keepdims=True)
    classes, exemplars, _ = unit.shape
    per_class = unit.sum(1)
    same = (per_class**2).sum() - classes * exemplars
    other = (per_class.sum(0) ** 2).sum() - (per_class**2).sum()
    pairs = classes * (classes - 1) * exemplars**2
    return other / pairs, same / max(classes * exemplars * (exemplars - 1), 1)


@pytest.mark.parametrize(
    ("spread", "rank"), [(0.0, 32), (0.5, 32), (1.0, 32), (0.5, 128)]
)
def test_low_rank_has_the_moments_and_cosines_of_its_formula(spread, rank):
    square, between, within = rectified_moments(spread)
    # Average over data sets, because each has one shared mean and few directions.
    seeds = range(6)
    sets = [data.LowRankClasses(200, 4, 512, rank, spread, s).load() for s in seeds]
    measured = np.array([cosines(features) for features in sets]).mean(0)
    assert measured[0] == pytest.approx(between, abs=0.015)
    assert measured[1] == pytest.approx(within, abs=0.01)
    assert np.mean([(f**2).mean() for f in sets]) == pytest.approx(square, rel=0.05)


def test_low_rank_says_its_cosines_right():
    """The docstring's figures are right, and near those of the paper's features."""
    assert rectified_moments(0.0)[1] == pytest.approx(0.65, abs=0.005)
    assert rectified_moments(0.5)[1:] == pytest.approx((0.61, 0.91), abs=0.006)


def test_low_rank_classes_differ_along_few_directions():
    features = data.LowRankClasses(40, 1, 400, rank=2, spread=0.0).load()[:, 0]
    unclipped = features[:, (features > 0).all(0)].astype(np.float64)
    assert unclipped.shape[1] > 20
    scales = np.linalg.svd(unclipped - unclipped.mean(0), compute_uv=False)
    assert scales[1] > 1
    assert scales[2] < 1e-4


def test_low_rank_noise_of_exemplars_along_the_directions_of_classes():
    """Where nothing is clipped, the noise has that many directions and that size."""
    make = data.LowRankClasses(80, 40, 900, rank=3, spread=0.0, class_spread=0.5)
    features = make.load().astype(np.float64)
    clear = (features > 0).all((0, 1))
    assert clear.sum() > 20
    unclipped = features[..., clear]
    within = (unclipped - unclipped.mean(1, keepdims=True)).reshape(-1, clear.sum())
    assert np.linalg.matrix_rank(within, tol=1e-3) == 3
    # Along the same directions, classes have a standard deviation of 1.
    means = unclipped.mean(1)
    between = means - means.mean(0)
    assert np.linalg.matrix_rank(np.concatenate([within, between]), tol=1e-3) == 3
    _, _, axes = np.linalg.svd(within, full_matrices=False)
    ratio = (within @ axes[:3].T).std(0) / (between @ axes[:3].T).std(0)
    # From 40 exemplars, minus one degree of freedom for their mean, and 80 classes.
    assert ratio == pytest.approx([0.5, 0.5, 0.5], rel=0.2)
    small = dataclasses.replace(make, num_classes=7, num_exemplars=3).load()
    assert np.array_equal(small, make.load()[:7, :3])


def test_a_scale_multiplies_the_features():
    make = data.LowRankClasses(5, 2, 7, rank=3)
    small = dataclasses.replace(make, scale=0.25)
    assert np.array_equal(small.load(), 0.25 * make.load())


def test_low_rank_noise_is_before_the_rectification_and_independent():
    spread = 0.05
    features = data.LowRankClasses(60, 30, 200, rank=4, spread=spread).load()
    clear = (features > 0.3).all(1)
    noise = (features - features.mean(1, keepdims=True)) * math.sqrt(30 / 29)
    chosen = noise.transpose(1, 0, 2)[:, clear]
    assert chosen.std() == pytest.approx(spread, rel=0.01)
    # Equal exemplar numbers share nothing across classes and dimensions.
    correlation = np.corrcoef(chosen.T[:300])[np.triu_indices(300, 1)]
    assert correlation.std() == pytest.approx(1 / math.sqrt(29), rel=0.05)
    assert (features == 0).any()
    assert (features >= 0).all()


def test_gaussian_moments():
    spread, dim = 0.3, 256
    features = data.GaussianClasses(400, 10, dim, spread).load().astype(np.float64)
    means = features.mean(1)
    noise = features - means[:, None]
    assert noise.var() * 10 / 9 == pytest.approx(spread**2, rel=0.01)
    assert means.var() == pytest.approx(1 + spread**2 / 10, rel=0.02)
    assert abs(features.mean()) < 0.01
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    cosine = (unit @ unit.T)[np.triu_indices(400, 1)]
    assert abs(cosine.mean()) < 0.001
    assert cosine.std() == pytest.approx(1 / math.sqrt(dim), rel=0.02)
    kurtosis = (noise**4).mean() / (noise**2).mean() ** 2
    assert kurtosis == pytest.approx(3, abs=0.05)
    # Each exemplar has its own noise, independent of the others'.
    flat = (features - features.mean(1, keepdims=True)).reshape(400, 10, dim)
    product = (flat[:, 0] * flat[:, 1]).mean() / spread**2
    assert product == pytest.approx(-1 / 10, abs=0.01)  # because the mean is removed
    assert abs((flat[0] * flat[1]).mean() / spread**2) < 0.1


@pytest.mark.parametrize("kind", [data.LowRankClasses, data.GaussianClasses])
class TestDrawn:
    def test_shape_and_type(self, kind):
        features = kind(3, 4, 5).load()
        assert features.shape == (3, 4, 5)
        assert features.dtype == np.float32
        default = kind().load()
        assert default.shape == (150, 20, 512)
        assert np.isfinite(default).all()

    def test_the_seed_decides(self, kind):
        first = kind(5, 3, 16, seed=3).load()
        np.testing.assert_array_equal(first, kind(5, 3, 16, seed=3).load())
        assert (first != kind(5, 3, 16, seed=4).load()).mean() > 0.5

    @pytest.mark.parametrize("dim", [7, 64])
    def test_a_larger_set_extends_a_smaller(self, kind, dim):
        large = kind(33, 9, dim, seed=2).load()
        for classes, exemplars in ((1, 1), (2, 9), (16, 3), (33, 1)):
            small = kind(classes, exemplars, dim, seed=2).load()
            np.testing.assert_array_equal(small, large[:classes, :exemplars])

    def test_classes_and_exemplars_are_distinct(self, kind):
        rows = kind(30, 10, 32).load().reshape(300, 32)
        assert len(np.unique(rows, axis=0)) == 300

    def test_without_spread_exemplars_are_equal(self, kind):
        features = kind(4, 3, 16, spread=0.0).load()
        np.testing.assert_array_equal(features, features[:, :1].repeat(3, 1))
        assert (features[0] != features[1]).any()


def test_numpy_still_draws_what_it_drew():
    """The values were stored once. If NumPy changes its generators, runs change."""
    low_rank = data.LowRankClasses(2, 2, 4, rank=2).load().ravel()[:4]
    gaussian = data.GaussianClasses(2, 2, 4).load().ravel()[:4]
    np.testing.assert_allclose(
        low_rank, [1.909196973, 1.858199000, 0.956439912, 0.0], atol=1e-6
    )
    np.testing.assert_allclose(
        gaussian, [2.536331654, -1.347364664, 1.041354537, -0.270896494], atol=1e-6
    )


def test_one_hot():
    numbers = data.OneHotClasses(4).load()
    assert numbers.dtype == np.int32
    np.testing.assert_array_equal(numbers, [[0], [1], [2], [3]])


# --- HDF5 ----------------------------------------------------------------------------


@pytest.fixture
def fill(tmp_path):
    """Writes named arrays into an HDF5 file and returns its name."""

    def fill(**arrays):
        file = tmp_path / "classes.h5"
        with h5py.File(file, "w") as opened:
            for name, value in arrays.items():
                opened[name.replace("__", "/")] = value
        return str(file)

    return fill


FEATURES = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("dtype", ["f2", "<f4", ">f4", "f8", "u1", "i2", ">i8", "u8"])
def test_hdf5_of_any_number_type(fill, dtype):
    features = data.HDF5Classes(fill(x=FEATURES.astype(dtype))).load()
    assert features.dtype == np.float32
    assert features.dtype.isnative
    np.testing.assert_array_equal(features, FEATURES)


def test_hdf5_flattens_images(fill):
    images = np.random.default_rng(0).random((2, 3, 4, 5), np.float32)
    features = data.HDF5Classes(fill(images=images)).load()
    assert features.shape == (2, 3, 20)
    np.testing.assert_array_equal(features[1, 2], images[1, 2].ravel())


def test_hdf5_finds_the_only_dataset_of_three_axes(fill):
    file = fill(names=["a", "b"], sub__deep=FEATURES, table=np.ones((2, 2)))
    for path in ("", "sub/deep", "/sub/deep"):
        np.testing.assert_array_equal(data.HDF5Classes(file, path).load(), FEATURES)


def test_hdf5_reads_the_dataset_that_is_named(fill):
    file = fill(a=FEATURES, b=FEATURES + 1.0)
    np.testing.assert_array_equal(data.HDF5Classes(file, "b").load(), FEATURES + 1)


@pytest.mark.parametrize(
    ("arrays", "path", "message"),
    [
        ({"a": FEATURES, "g__b": FEATURES}, "", r"several .*'a' \[2, 3, 4\], 'g/b' \["),
        ({"a": np.ones((2, 3))}, "", r"no dataset with three .* 'a' \[2, 3\]"),
        ({}, "", "holds nothing"),
        ({"features": FEATURES}, "featurs", "^path: .*'featurs'.*mean 'features'"),
        ({"features": FEATURES}, "/", "^path: .*no dataset '/'"),
        ({"features": FEATURES}, "zzz", r"holds 'features' \[2, 3, 4\]"),
        ({"g__b": FEATURES}, "g", "no dataset 'g'"),
        ({"a": FEATURES}, "a/b", "no dataset 'a/b'"),
        ({"a": np.ones((2, 3))}, "a", r"\[class, exemplar, dim\].* got \[2, 3\]"),
        ({"a": np.ones((2, 0, 3))}, "a", r"not be empty, got \[2, 0, 3\]"),
        ({"a": h5py.Empty("f")}, "a", r"got \[\]"),
        ({"a": FEATURES > 3}, "a", "must hold floats or integers, got bool"),
    ],
)
def test_hdf5_errors(fill, arrays, path, message):
    with pytest.raises(ValueError, match=message) as error:
        data.HDF5Classes(fill(**arrays), path).load()
    assert str(error.value).startswith("path: ")
    assert_one_line(error)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_hdf5_refuses_what_is_not_finite(fill, value):
    features = FEATURES.astype(np.float64)
    features[1, 2, 3] = value
    with pytest.raises(ValueError, match="^file: .* must be finite, got 1 of 24"):
        data.HDF5Classes(fill(a=features)).load()


def test_hdf5_lists_at_most_ten(fill):
    file = fill(**{f"x{i}": FEATURES for i in range(14)})
    with pytest.raises(ValueError, match="'x13'.* and 4 more"):
        data.HDF5Classes(file).load()


def test_files_that_are_not_hdf5(tmp_path, fill):
    text = tmp_path / "text.h5"
    text.write_text("no data")
    whole = pathlib.Path(fill(a=np.ones((20, 20, 20))))
    cut = tmp_path / "cut.h5"
    cut.write_bytes(whole.read_bytes()[:20000])
    cases = [
        (text, "cannot read .*text.h5 as HDF5"),
        (cut, "cannot read .*cut.h5 as HDF5"),
        (tmp_path / "none.h5", "there is no file .*none.h5"),
        (tmp_path, "there is no file"),
    ]
    for file, message in cases:
        with pytest.raises(ValueError, match=f"^file: {message}") as error:
            data.HDF5Classes(str(file)).load()
        assert_one_line(error)


# --- writing -------------------------------------------------------------------------


def some_classes() -> tuple[np.ndarray, list[str]]:
    return FEATURES.astype(np.float32), ["α", "b"]


def test_write_classes_round_trip(tmp_path):
    file = tmp_path / "new.h5"
    features, names = some_classes()
    made = {"how": "by hand", "size": 28, "scale": 0.5, "files": ["a", "b"]}
    data.write_classes(file, "g/x", features, names, made)
    assert os.listdir(tmp_path) == ["new.h5"]
    np.testing.assert_array_equal(data.HDF5Classes(str(file)).load(), features)
    with h5py.File(file) as opened:
        assert opened["g/x"].dtype == np.float32
        assert opened["names"].asstr()[...].tolist() == names
        attributes = dict(opened["g/x"].attrs)
    assert attributes.pop("files").tolist() == made.pop("files")
    assert attributes == made


def test_write_classes_refuses(tmp_path):
    features, names = some_classes()
    cases = [
        (("a.h5", "x", features[0], names), "^features must have shape"),
        (("a.h5", "x", features[:0], []), "^features must .* empty"),
        (("a.h5", "x", features / np.float32(math.inf) * np.nan, names), "finite"),
        (("a.h5", "x", features, names[:1]), "^names must .* 2, got 1"),
        (("none/a.h5", "x", features, names), "^file: there is no folder .*none"),
    ]
    for (file, path, array, called), message in cases:
        with pytest.raises(ValueError, match=message) as error:
            data.write_classes(tmp_path / file, path, array, called, {})
        assert_one_line(error)
    assert os.listdir(tmp_path) == []


def test_an_existing_file_is_kept(tmp_path):
    file = tmp_path / "mine.h5"
    file.write_text("mine")
    link = tmp_path / "link.h5"
    link.symlink_to("nowhere")
    for target in (file, link):
        with pytest.raises(ValueError, match="exists and is not overwritten") as error:
            data.write_classes(target, "x", *some_classes(), {})
        assert str(target) in str(error.value)
    assert file.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["link.h5", "mine.h5"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch, call):
    def fail(*arguments):
        # The file still has a temporary name: `out` is never a partial file.
        assert not (tmp_path / "out.h5").exists()
        assert len(os.listdir(tmp_path)) == 1
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        data.write_classes(tmp_path / "out.h5", "x", *some_classes(), {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "source",
    [data.LowRankClasses(3, 2, 8, seed=2**70), data.GaussianClasses(3, 2, 8)],
    ids=["low-rank", "gaussian"],
)
def test_save_source(tmp_path, source):
    file = tmp_path / "saved.h5"
    assert data.save_source(source, file) == (3, 2, 8)
    saved = data.HDF5Classes(str(file))
    np.testing.assert_array_equal(saved.load(), source.load())
    with h5py.File(file) as opened:
        setting = json.loads(opened["features"].attrs["source"])
        assert opened["features"].attrs["numpy"] == np.__version__
        assert opened["names"].asstr()[...].tolist() == ["class0", "class1", "class2"]
    assert getattr(data, setting.pop("type"))(**setting) == source
    assert data.save_source(saved, tmp_path / "copy.h5") == (3, 2, 8)
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        data.save_source(source, file)


def test_one_hot_has_nothing_to_save(tmp_path):
    with pytest.raises(ValueError, match="^source: OneHotClasses has no features"):
        data.save_source(data.OneHotClasses(3), tmp_path / "saved.h5")
    assert os.listdir(tmp_path) == []


# --- Omniglot ------------------------------------------------------------------------


def drawing(character: int, drawer: int, side: int = 105) -> bytes:
    """A drawing whose 5×5 cells of 21 pixels encode two numbers in binary."""
    bits = [(character << 6 | drawer) >> bit & 1 for bit in range(25)]
    cells = np.array(bits).reshape(5, 5)
    paper = np.kron(1 - cells, np.ones((21, 21)))[:side, :side] * 255
    buffer = io.BytesIO()
    Image.fromarray(paper.astype(np.uint8)).convert("1").save(buffer, "PNG")
    return buffer.getvalue()


def spelled(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers encoded in drawings of size 5: characters and drawers."""
    cells = images.reshape(*images.shape[:2], 25).astype(np.float64)
    np.testing.assert_array_equal(cells, cells.round())
    value = (cells @ 2 ** np.arange(25)).astype(int)
    return value >> 6, value & 63


def character(place: str, number: int, drawers=range(1, 21)) -> dict[str, bytes]:
    """The 20 files of one character, at alphabet/characterNN."""
    return {
        f"{place}/{number:04d}_{drawer:02d}.png": drawing(number, drawer)
        for drawer in drawers
    }


def write_zip(file: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    shuffled = list(files.items())
    random.Random(0).shuffle(shuffled)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in shuffled:
            archive.writestr(name, content)
    return file


@pytest.fixture
def small(tmp_path):
    """Two zips like the published ones; "Beta/character02" (number 12) is in both."""
    first = {
        **character("small1/Beta/character02", 12),
        **character("small1/Beta/character01", 11),
        **character("small1/Alpha_(old)/character10", 7),
        "small1/": b"",
        "small1/readme.png": b"not a drawing",
        "__MACOSX/small1/Beta/character01/._0011_01.png": b"not a drawing",
    }
    second = {
        **character("small2/Beta/character02", 12),
        **character("small2/Aa/character03", 900),
    }
    return [
        write_zip(tmp_path / "one.zip", first),
        write_zip(tmp_path / "two.zip", second),
    ]


NUMBERS = {
    "Aa/character03": 900,
    "Alpha_(old)/character10": 7,
    "Beta/character01": 11,
    "Beta/character02": 12,
}


def test_each_class_is_one_character_and_each_drawing_its_drawers(small):
    names, images = data.read_omniglot(small, size=5)
    assert names == list(NUMBERS)
    assert images.shape == (4, 20, 5, 5)
    assert images.dtype == np.float32
    characters, drawers = spelled(images)
    for row, number in zip(characters, NUMBERS.values(), strict=True):
        assert set(row) == {number}
    for row in drawers:
        assert list(row) == list(range(1, 21))


def test_the_order_of_the_zips_does_not_matter(small):
    names, images = data.read_omniglot(small)
    for paths in (small[::-1], [*small, small[0]], [str(path) for path in small]):
        again = data.read_omniglot(paths)
        assert again[0] == names
        np.testing.assert_array_equal(again[1], images)


def test_unpacked_folders(small, tmp_path):
    names, images = data.read_omniglot(small)
    folder = tmp_path / "unpacked"
    for path in small:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    for paths in ([folder], [folder / "small1", folder / "small2"], [small[0], folder]):
        again = data.read_omniglot(paths)
        assert again[0] == names
        np.testing.assert_array_equal(again[1], images)
    alphabet = data.read_omniglot([folder / "small1" / "Beta"])[0]
    assert alphabet == ["Beta/character01", "Beta/character02"]


def test_pixels_are_means_of_blocks_with_ink_one(small):
    full = data.read_omniglot(small, size=105)[1]
    np.testing.assert_array_equal(np.unique(full), [0, 1])
    for size in (1, 5, 15, 35):
        block = 105 // size
        blocks = full.reshape(4, 20, size, block, size, block)
        images = data.read_omniglot(small, size=size)[1]
        np.testing.assert_allclose(images, blocks.mean((3, 5)), atol=1e-6)
    images = data.read_omniglot(small, size=28)[1]
    # If the size does not divide 105, pixel i averages those with centres inside it.
    taken = np.ceil((np.arange(105) + 0.5) / 3.75 - 1e-9).astype(int) - 1
    member = np.eye(28)[taken].T
    member /= member.sum(1, keepdims=True)
    np.testing.assert_allclose(images, member @ full @ member.T, atol=1e-6)


def test_characters_with_wrong_drawings(tmp_path):
    good = character("x/Beta/character01", 1)
    place = "x/Beta/character02"
    missing = character(place, 2, range(1, 20))
    gap = character(place, 2, [*range(1, 20), 21])
    more = character(place, 2, range(1, 22))
    mixed = {**character(place, 2, range(1, 20)), **character(place, 3, [20])}
    name = f"{place}/0002_07.png"
    broken = {**character(place, 2), name: drawing(2, 7)[:90]}
    nonsense = {**character(place, 2), name: b"no image"}
    narrow = {**character(place, 2), name: drawing(2, 7, side=100)}
    other = {**character(place, 2), "y/Beta/character02/0002_01.png": b""}
    cases = [
        (missing, "must have drawings 1 to 20, got 19"),
        (gap, "must have drawings 1 to 20, got 20: .*19, 21"),
        (more, "must have drawings 1 to 20, got 21"),
        (mixed, "mixes characters 0002, 0003"),
        (broken, "cannot read a drawing"),
        (nonsense, "cannot read a drawing"),
        (narrow, "must be 105×105, got 100×100"),
        (other, "must have drawings 1 to 20, got 1"),
    ]
    for number, (files, message) in enumerate(cases):
        path = write_zip(tmp_path / f"{number}.zip", {**good, **files})
        with pytest.raises(ValueError, match=message) as error:
            data.read_omniglot([path])
        assert "Beta/character02" in str(error.value)
        assert_one_line(error)


def test_one_name_for_two_characters(small, tmp_path):
    files = character("small1/Beta/character02", 13)
    third = write_zip(tmp_path / "three.zip", files)
    with pytest.raises(ValueError, match="^paths: Beta/character02 occurs twice"):
        data.read_omniglot([*small, third])


def test_paths_that_cannot_be_read(small, tmp_path):
    text = tmp_path / "text.zip"
    text.write_text("no zip")
    whole = small[0].read_bytes()
    cut = tmp_path / "cut.zip"
    cut.write_bytes(whole[: len(whole) // 2])
    flipped = tmp_path / "flipped.zip"
    flipped.write_bytes(whole.replace(drawing(12, 3)[60:], drawing(12, 4)[60:], 1))
    assert flipped.read_bytes() != whole
    empty = tmp_path / "empty"
    empty.mkdir()
    cases = [
        (text, "text.zip is neither a zip nor a folder"),
        (cut, "cut.zip is neither a zip nor a folder"),
        (flipped, "the zip .*flipped.zip is damaged"),
        (tmp_path / "none.zip", "none.zip does not exist"),
        (empty, "no characters .* in .*empty"),
    ]
    for path, message in cases:
        with pytest.raises(ValueError, match=message) as error:
            data.read_omniglot([small[1], path])
        assert str(error.value).startswith("paths: ")
        assert_one_line(error)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: data.LowRankClasses(num_classes=0), "num_classes must .* got 0"),
        (lambda _: data.LowRankClasses(rank=0), "rank must .* got 0"),
        (lambda _: data.LowRankClasses(class_spread=-1.0), "class_spread .* got -1"),
        (lambda _: data.LowRankClasses(scale=math.nan), "scale must .* got nan"),
        (lambda _: data.GaussianClasses(num_exemplars=0), "num_exemplars .* got 0"),
        (lambda _: data.GaussianClasses(spread=math.inf), "spread must .* got inf"),
        (lambda _: data.GaussianClasses(seed=-1), "seed must .* got -1"),
        (lambda _: data.OneHotClasses(0), "num_classes must .* got 0"),
        (lambda _: data.ConvEncoder(steps=-1), "steps must .* got -1"),
        (lambda zips: data.read_omniglot(zips, size=106), "size must .* got 106"),
        (lambda zips: data.read_omniglot(zips, size=0), "size must .* got 0"),
        (lambda zips: data.read_omniglot(str(zips[0])), "paths must be a list"),
        (lambda zips: data.make_omniglot(zips, "never.h5", scale=0.0), "scale must"),
        (lambda _: data.pca_whiten(correlated_images(), 0), "dims must .* got 0"),
    ],
)
def test_settings_that_are_refused(small, make, message):
    with pytest.raises(ValueError, match=f"^{message}") as error:
        make(small)
    assert_one_line(error)


def correlated_images() -> np.ndarray:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(6, 25)) * np.array([5, 4, 3, 2, 1, 0.5])[:, None]
    pixels = rng.normal(size=(12, 20, 6)) @ mixing + rng.normal(size=25) + 3
    return pixels.reshape(12, 20, 5, 5).astype(np.float32)


def test_whitened_features_are_the_principal_components():
    images = correlated_images()
    features = data.pca_whiten(images, 4)
    assert features.shape == (12, 20, 4)
    assert features.dtype == np.float32
    pixels = images.reshape(240, 25).astype(np.float64)
    flat = features.reshape(240, 4).astype(np.float64)
    np.testing.assert_allclose(np.cov(flat.T, bias=True), np.eye(4), atol=1e-5)
    np.testing.assert_allclose(flat.mean(0), 0, atol=1e-5)
    variances, vectors = np.linalg.eigh(np.cov(pixels.T, bias=True))
    for index in range(4):
        vector = vectors[:, -1 - index]
        vector = vector * (1 if vector[np.abs(vector).argmax()] > 0 else -1)
        expected = (pixels - pixels.mean(0)) @ vector / math.sqrt(variances[-1 - index])
        np.testing.assert_allclose(flat[:, index], expected, atol=1e-4)


def test_whitening_knows_the_rank_and_no_more():
    images = correlated_images()
    assert np.isfinite(data.pca_whiten(images, 6)).all()
    exact = images.round()[:, :, :2, :2].copy()
    exact[:, :, 1, 1] = exact[:, :, 0, 0] * 2
    assert data.pca_whiten(exact, 3).shape == (12, 20, 3)
    with pytest.raises(ValueError, match="^dims must .* rank of the images, 3, got 4"):
        data.pca_whiten(exact, 4)
    with pytest.raises(ValueError, match="rank of the images, 0, got 1"):
        data.pca_whiten(np.ones_like(exact), 1)
    # The first components depend neither on how many there are nor on the scale.
    np.testing.assert_array_equal(
        data.pca_whiten(images, 3), data.pca_whiten(images, 5)[..., :3]
    )
    np.testing.assert_allclose(
        data.pca_whiten(images * 4, 3), data.pca_whiten(images, 3), atol=1e-5
    )


def test_make_omniglot(small, tmp_path):
    names, images = data.read_omniglot(small, size=28)
    raw, white = tmp_path / "raw.h5", tmp_path / "white.h5"
    assert data.make_omniglot(small, raw) == (4, 20, 28, 28)
    assert data.make_omniglot(small, white, size=15, whiten=7) == (4, 20, 7)
    features = data.HDF5Classes(str(raw)).load()
    np.testing.assert_allclose(features, 3 * images.reshape(4, 20, 784), rtol=1e-6)
    with h5py.File(raw) as opened:
        assert opened["names"].asstr()[...].tolist() == names
        attributes = dict(opened["pixels"].attrs)
        assert attributes.pop("files").tolist() == ["one.zip", "two.zip"]
        assert (attributes["size"], attributes["scale"]) == (28, 3.0)
        assert "MIT" in attributes["licence"]
    with h5py.File(white) as opened:
        stored = opened["pca"][...]
        assert opened["pca"].attrs["whiten"] == 7
        assert "scale" not in opened["pca"].attrs
    smaller = data.read_omniglot(small, size=15)[1]
    np.testing.assert_array_equal(stored, data.pca_whiten(smaller, 7))
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        data.make_omniglot(small, raw)


@needs_omniglot
def test_the_published_zips():
    names, images = data.read_omniglot(ZIPS)
    assert images.shape == (242, 20, 28, 28)
    assert len(set(names)) == 242
    assert names == sorted(names)
    alphabets = {name.split("/")[0] for name in names}
    assert len(alphabets) == 8
    assert {"Balinese", "Japanese_(katakana)", "Latin"} <= alphabets
    assert images.min() == 0
    assert images.max() == 1
    # The figures from the docstring of `make_omniglot`.
    assert (images**2).mean() == pytest.approx(0.06, abs=0.005)
    assert (9 * images**2).mean() == pytest.approx(0.5, abs=0.1)
    for path, name, file, drawer in (
        (ZIPS[0], "Balinese/character05", "0112", 3),
        (ZIPS[1], "Tagalog/character17", None, 20),
    ):
        with zipfile.ZipFile(path) as archive:
            if file is None:
                inside = [n for n in archive.namelist() if f"/{name}/" in n]
                inside = [n for n in inside if n.endswith(f"_{drawer:02d}.png")]
                assert len(inside) == 1
            else:
                inside = [f"{path.stem}/{name}/{file}_{drawer:02d}.png"]
            with Image.open(io.BytesIO(archive.read(inside[0]))) as image:
                paper = image.convert("F")
        expected = 1 - np.asarray(paper.resize((28, 28), Image.Resampling.BOX)) / 255
        actual = images[names.index(name), drawer - 1]
        np.testing.assert_allclose(actual, expected, atol=1e-6)
        assert expected.mean() > 0.01
