"""Sources of classes, and how Omniglot's classes are made."""

import dataclasses
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
    scaled = dataclasses.replace(make, num_classes=7, num_exemplars=3, scale=0.25)
    assert np.array_equal(scaled.load(), 0.25 * small)


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


def test_transformed_classes_are_cut_from_drawings_under_eight_transforms():
    """A class is 20 images in the order of their files; eight classes a character."""
    make = data.TransformedClasses(24, 20, 400, rank=6, invariant=2, mean=9.0)
    features = make.load().astype(np.float64).reshape(3 * 20 * 8, 400)
    # Where nothing is clipped, an image is a linear map of its latent numbers. Images
    # are in the order [character, drawing, transform].
    flat = features[:, (features > 0).all(0)]
    assert flat.shape[1] > 200
    _, sizes, axes = np.linalg.svd(flat - flat.mean(0), full_matrices=False)
    assert (sizes[:6] > 1).all()
    assert sizes[6] < 1e-3 * sizes[5]
    latent = ((flat - flat.mean(0)) @ axes[:6].T).reshape(60, 8, 6)
    first = np.concatenate([latent[:, 0], np.ones((60, 1))], 1)
    shared = np.zeros((6, 6))
    for t in range(8):
        # Each transform is one linear map for all drawings …
        turned, left, *_ = np.linalg.lstsq(first, latent[:, t], rcond=None)
        np.testing.assert_allclose(first @ turned, latent[:, t], atol=1e-3)
        shared += turned[:6] / 8
    # … which leaves two directions as they are.
    ones = np.isclose(np.linalg.eigvals(shared), 1, atol=1e-3)
    assert ones.sum() == 2


def test_cosines_of_transformed_classes():
    """Within a class, with another class of the character, and with any other."""
    settings = {"invariant": 19, "spread": 0.5, "mean": 1.0}
    features = data.TransformedClasses(400, **settings).load().astype(np.float64)
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    own = np.einsum("kid,kjd->kij", features, features)
    within = own[:, *np.triu_indices(20, 1)].mean()
    beside = np.einsum("kid,kjd->kij", features[::8], features[1::8]).mean()
    other = np.einsum("kid,kjd->kij", features[:-8], features[8:]).mean()
    assert [within, beside, other] == pytest.approx([0.81, 0.80, 0.61], abs=0.01)


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


@pytest.mark.parametrize(
    "kind", [data.LowRankClasses, data.GaussianClasses, data.TransformedClasses]
)
def test_a_larger_set_extends_a_smaller(kind):
    large = kind(33, 9, 7, seed=2).load()
    assert (large.shape, large.dtype) == ((33, 9, 7), np.float32)
    assert len(np.unique(large.reshape(297, 7), axis=0)) == 297
    for classes, exemplars in ((1, 1), (2, 9), (16, 3), (33, 1)):
        small = kind(classes, exemplars, 7, seed=2).load()
        np.testing.assert_array_equal(small, large[:classes, :exemplars])
    assert (large != kind(33, 9, 7, seed=3).load()).mean() > 0.5
    if kind is data.TransformedClasses:
        return
    equal = kind(4, 3, 16, spread=0.0).load()
    np.testing.assert_array_equal(equal, equal[:, :1].repeat(3, 1))


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


@pytest.mark.parametrize("dtype", ["f2", ">f4", "f8", "u1", ">i8"])
def test_hdf5_of_any_number_type(fill, dtype):
    """It is the dataset that is named, or the only one of three or more axes."""
    file = fill(names=["a", "b"], sub__deep=FEATURES.astype(dtype), x=np.ones((2, 2)))
    for path in ("", "sub/deep", "/sub/deep"):
        features = data.HDF5Classes(file, path).load()
        assert (features.dtype, features.dtype.isnative) == (np.float32, True)
        np.testing.assert_array_equal(features, FEATURES)
    images = FEATURES.reshape(1, 2, 3, 4)
    features = data.HDF5Classes(fill(a=FEATURES, b=images), "b").load()
    np.testing.assert_array_equal(features, images.reshape(1, 2, 12))


HUGE = np.where(FEATURES == 7, 1e300, FEATURES)


@pytest.mark.parametrize(
    ("arrays", "path", "message"),
    [
        ({"a": FEATURES, "g__b": FEATURES}, "", r"has 2 .*'a' \[2, 3, 4\], 'g/b' \["),
        ({"features": FEATURES}, "featurs", "^path: .*'featurs'.*mean 'features'"),
        ({"g__b": FEATURES}, "g", "no dataset 'g'"),
        ({"a": np.ones((2, 3))}, "a", r"\[class, exemplar, dim\].* got \[2, 3\]"),
        ({"a": np.ones((2, 0, 3))}, "a", r"not be empty, got \[2, 0, 3\]"),
        ({"a": h5py.Empty("f")}, "a", r"got \[\]"),
        ({"a": FEATURES > 3}, "a", "must hold floats or integers, got bool"),
        ({"a": HUGE}, "", "^file: .* must be finite, got 1 of 24"),
        ({"a": HUGE * np.nan}, "", "^file: .* must be finite, got 24 of 24"),
    ],
)
def test_hdf5_errors(fill, arrays, path, message):
    with pytest.raises(ValueError, match=message) as error:
        data.HDF5Classes(fill(**arrays), path).load()
    assert_one_line(error)


def test_files_that_are_not_hdf5(tmp_path, fill):
    cut = tmp_path / "cut.h5"
    cut.write_bytes(pathlib.Path(fill(a=np.ones((20, 20, 20)))).read_bytes()[:20000])
    for file, message in ((cut, "cannot read .*cut.h5 as"), (tmp_path, "there is no")):
        with pytest.raises(ValueError, match=f"^file: {message}"):
            data.HDF5Classes(str(file)).load()


# --- writing -------------------------------------------------------------------------


def test_write_classes(tmp_path):
    file = tmp_path / "new.h5"
    features, names = FEATURES.astype(np.float32), ["α", "b"]
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
    link = tmp_path / "link.h5"
    link.symlink_to("nowhere")
    for target, array, called, message in (
        (file, features, names, "new.h5 exists and is not overwritten"),
        (link, features, names, "link.h5 exists and is not overwritten"),
        (tmp_path / "none/a.h5", features, names, "^file: there is no folder .*none"),
        (tmp_path / "a.h5", features[0], names, "^features must have shape"),
        (tmp_path / "a.h5", features * np.nan, names, "finite"),
        (tmp_path / "a.h5", features, names[:1], "^names must .* 2, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            data.write_classes(target, "x", array, called, {})
    assert sorted(os.listdir(tmp_path)) == ["link.h5", "new.h5"]


@pytest.mark.parametrize(
    "source",
    [
        data.LowRankClasses(3, 2, 8, seed=2**70),
        data.GaussianClasses(3, 2, 8),
        data.TransformedClasses(3, 2, 8),
    ],
    ids=["low-rank", "gaussian", "transformed"],
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
    with pytest.raises(ValueError, match="^source: OneHotClasses has no features"):
        data.save_source(data.OneHotClasses(3), tmp_path / "one.h5")


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


def test_the_order_and_the_form_of_the_parts_do_not_matter(small, tmp_path):
    names, images = data.read_omniglot(small)
    folder = tmp_path / "unpacked"
    for path in small:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    apart = [folder / "small1", folder / "small2"]
    for paths in ([*small[::-1], small[0]], [str(folder)], apart, [small[0], folder]):
        again = data.read_omniglot(paths)
        assert again[0] == names
        np.testing.assert_array_equal(again[1], images)
    alphabet = data.read_omniglot([folder / "small1" / "Beta"])[0]
    assert alphabet == ["Beta/character01", "Beta/character02"]


def wrong_drawings():
    """What is wrong with files of one character, and the files."""
    place = "x/Beta/character02"
    whole, name = character(place, 2), f"{place}/0002_07.png"
    return {
        "drawings 0002_01 to 0002_20, got 19": character(place, 2, range(1, 20)),
        "got 20: .*19, 0002_21": character(place, 2, [*range(1, 20), 21]),
        "got 20: .*19, 0003_20": {
            **character(place, 2, range(1, 20)),
            **character(place, 3, [20]),
        },
        "cannot read a drawing": {**whole, name: drawing(2, 7)[:90]},
        "must be 105×105, got 100×100": {**whole, name: drawing(2, 7, side=100)},
        "got 1: 0002_01": {**whole, "y/Beta/character02/0002_01.png": b""},
        "occurs twice": {k: drawing(13, i) for i, k in enumerate(whole)},
    }


def test_what_is_no_omniglot_is_refused(small, tmp_path):
    for message, files in wrong_drawings().items():
        path = write_zip(tmp_path / "wrong.zip", files)
        with pytest.raises(ValueError, match=f"^paths: .*{message}") as error:
            data.read_omniglot([small[0], path])
        assert "Beta/character02" in str(error.value)
    whole = small[0].read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    flipped = whole.replace(drawing(12, 3)[60:], drawing(12, 4)[60:], 1)
    (tmp_path / "flipped.zip").write_bytes(flipped)
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("cut.zip", "cut.zip is neither a zip nor a folder"),
        ("flipped.zip", "the zip .*flipped.zip is damaged"),
        ("none.zip", "none.zip does not exist"),
        ("empty", "no characters .* in .*empty"),
    ):
        with pytest.raises(ValueError, match=f"^paths: .*{message}") as error:
            data.read_omniglot([small[1], tmp_path / name])
        assert_one_line(error)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: data.LowRankClasses(num_classes=0), "num_classes must .* got 0"),
        (lambda _: data.LowRankClasses(class_spread=-1.0), "class_spread .* got -1"),
        (lambda _: data.LowRankClasses(scale=math.nan), "scale must .* got nan"),
        (lambda _: data.TransformedClasses(3, 21), "num_exemplars must be .* 20, got"),
        (lambda _: data.TransformedClasses(invariant=33), "invariant must be .* 32"),
        (lambda _: data.GaussianClasses(spread=math.inf), "spread must .* got inf"),
        (lambda _: data.OneHotClasses(0), "num_classes must .* got 0"),
        (lambda _: data.ConvEncoder(steps=-1), "steps must .* got -1"),
        (lambda zips: data.read_omniglot(zips, size=106), "size must .* got 106"),
        (lambda zips: data.read_omniglot(str(zips[0])), "paths must be a list"),
        (lambda zips: data.make_omniglot(zips, "never.h5", scale=0.0), "scale must"),
        (lambda _: data.pca_whiten(correlated_images(), 0), "dims must .* got 0"),
    ],
)
def test_settings_that_are_refused(small, make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make(small)


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
