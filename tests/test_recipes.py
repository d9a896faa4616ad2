"""Files of classes: Omniglot's symmetries, ResNet features, embedding clusters.

Tests that need torchvision, faiss or safetensors are skipped without them.
"""

import dataclasses
import hashlib
import importlib
import io
import math
import re
import sys
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from icl import cli, data
from icl.data import _clusters, _resnet, _symmetry


def installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except (ImportError, RuntimeError, OSError):  # Or it is installed but broken.
        return False
    return True


needs_resnet = pytest.mark.skipif(
    not installed("torchvision"), reason="torchvision is not installed"
)
needs_faiss = pytest.mark.skipif(
    not installed("faiss"), reason="faiss is not installed"
)
needs_safetensors = pytest.mark.skipif(
    not installed("safetensors"), reason="safetensors is not installed"
)


def call(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", *map(str, arguments)])
    return (stop.value.code, *capsys.readouterr())


# --- turns and mirror images ---------------------------------------------------------


NAMES = ["Aa/character02", "Beta/character01", "Beta/character02"]
ALL = data.SYMMETRIES["all"]
TURNED = ["", "@turn90", "@turn180", "@turn270"]
SUFFIXES = {
    "none": [""],
    "turns": TURNED,
    "all": [
        *("", "@mirrored", "@turn90", "@turn90,mirrored"),
        *("@turn180", "@turn180,mirrored", "@turn270", "@turn270,mirrored"),
    ],
}


def transformed(paper: np.ndarray, symmetry: int) -> np.ndarray:
    """The symmetries of `"all"`, in the order of data/README.md."""
    turned = np.rot90(paper, symmetry // 2)
    return np.fliplr(turned) if symmetry % 2 else turned


@pytest.fixture(scope="module")
def drawings() -> np.ndarray:
    """Three characters with 20 black-and-white drawings each, without symmetry."""
    return np.random.default_rng(0).random((3, 20, 105, 105)) < 0.8


def write_zip(file, drawings: np.ndarray):
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, papers) in enumerate(zip(NAMES, drawings, strict=True)):
            for drawer, paper in enumerate(papers, 1):
                buffer = io.BytesIO()
                Image.fromarray(paper).save(buffer, "PNG")
                inside = f"x/{name}/{number:04d}_{drawer:02d}.png"
                archive.writestr(inside, buffer.getvalue())
    return file


@pytest.fixture(scope="module")
def characters(drawings, tmp_path_factory):
    return write_zip(tmp_path_factory.mktemp("zips") / "three.zip", drawings)


def test_a_turn_is_counter_clockwise_and_a_mirror_exchanges_left_and_right():
    corner = np.array([["a", "b"], ["c", "d"]])
    turned = np.array([["b", "d"], ["a", "c"]])
    np.testing.assert_array_equal(data.Symmetry(1)(corner), turned)
    np.testing.assert_array_equal(data.Symmetry(1, True)(corner), turned[:, ::-1])
    np.testing.assert_array_equal(data.Symmetry(3)(turned), corner)


def test_all_symmetries_are_those_of_the_square():
    image = np.arange(9).reshape(3, 3)
    found = {symmetry(image).tobytes() for symmetry in ALL}
    assert len(found) == 8
    again = {b(a(image)).tobytes() for a in ALL for b in ALL}
    assert again == found
    assert set(data.SYMMETRIES["turns"]) < set(ALL)
    for symmetries in data.SYMMETRIES.values():
        np.testing.assert_array_equal(symmetries[0](image), image)
    for kind, suffixes in SUFFIXES.items():
        assert [symmetry.suffix for symmetry in data.SYMMETRIES[kind]] == suffixes


def test_each_class_is_one_character_under_one_symmetry(characters, drawings):
    names, images = data.read_omniglot([characters], size=105, symmetries=ALL)
    assert names == [name + suffix for name in NAMES for suffix in SUFFIXES["all"]]
    assert images.shape == (24, 20, 105, 105)
    for index in range(24):
        for drawer in range(20):
            ink = ~transformed(drawings[index // 8, drawer], index % 8)
            np.testing.assert_array_equal(images[index, drawer], ink)
    # All 480 drawings differ, so no two classes share one.
    assert len({image.tobytes() for row in images for image in row}) == 480


@pytest.mark.parametrize("size", [28, 15])
def test_it_is_the_published_pixels_that_are_transformed(
    characters, drawings, tmp_path, size
):
    """The order matters, because the box filter is not symmetric."""
    images = data.read_omniglot([characters], size=size, symmetries=ALL)[1]
    for symmetry in range(8):
        papers = [[transformed(paper, symmetry) for paper in row] for row in drawings]
        alone = write_zip(tmp_path / f"{symmetry}.zip", np.array(papers))
        expected = data.read_omniglot([alone], size=size)[1]
        np.testing.assert_array_equal(images[symmetry::8], expected)


def test_the_papers_layouts():
    """1600 characters train; 23 are held out, with all of their symmetries."""
    published = [f"A/character{number:04}" for number in range(1623)]
    names = _symmetry.class_names(published, ALL)
    assert len(names) == 12_984
    training, held_out = names[:12_800], names[12_800:]
    assert len(held_out) == 184
    assert {name.split("@")[0] for name in training} == set(published[:1600])
    assert {name.split("@")[0] for name in held_out} == set(published[1600:])
    assert _symmetry.class_names(published, data.SYMMETRIES["none"]) == published


def test_shuffled_characters(characters):
    names, images = data.read_omniglot([characters], size=5, symmetries=ALL)
    orders = set()
    for seed in range(3):
        again = data.read_omniglot([characters], size=5, symmetries=ALL, shuffle=seed)
        assert sorted(again[0]) == sorted(names)
        for name, row in zip(*again, strict=True):
            np.testing.assert_array_equal(row, images[names.index(name)])
        # A character's symmetries stay together, in order.
        starts = again[0][::8]
        assert again[0] == [
            name + suffix for name in starts for suffix in SUFFIXES["all"]
        ]
        orders.add(tuple(starts))
        same = data.read_omniglot([characters], size=5, symmetries=ALL, shuffle=seed)
        assert same[0] == again[0]
    assert len(orders) > 1


def test_a_file_of_symmetries(characters, tmp_path, capsys):
    out = tmp_path / "turned.h5"
    options = ["--size", 15, "--transforms", "turns", "--shuffle", 3, "--out", out]
    status, text, _ = call(capsys, "omniglot", characters, *options)
    assert status == 0
    assert "12 classes, 20 exemplars" in text
    names, images = data.read_omniglot(
        [characters], size=15, symmetries=data.SYMMETRIES["turns"], shuffle=3
    )
    with h5py.File(out) as opened:
        assert opened["names"].asstr()[...].tolist() == names
        np.testing.assert_array_equal(opened["pixels"], 3 * images)
        assert opened["pixels"].attrs["symmetries"] == 4
        assert opened["pixels"].attrs["order"] == "shuffled with seed 3"


def test_components_of_symmetries(characters, tmp_path):
    out = tmp_path / "pca.h5"
    made = data.make_omniglot([characters], out, size=5, whiten=3, symmetries=ALL)
    assert made == (24, 20, 3)
    images = data.read_omniglot([characters], size=5, symmetries=ALL)[1]
    with h5py.File(out) as opened:
        np.testing.assert_array_equal(opened["pca"], data.pca_whiten(images, 3))


def test_the_convolutions_see_no_symmetry_of_what_is_written(characters, tmp_path):
    encoder = data.ConvEncoder(dim=8, num_training=1, steps=2)
    out, plain = tmp_path / "conv.h5", tmp_path / "plain.h5"
    options = {"size": 5, "encoder": encoder}
    assert data.make_omniglot([characters], plain, **options) == (2, 20, 8)
    made = data.make_omniglot([characters], out, **options, symmetries=ALL)
    assert made == (16, 20, 8)
    training, encoded = encoder.split(3)
    with h5py.File(out) as opened, h5py.File(plain) as other:
        written = opened["names"].asstr()[...].tolist()
        trained_on = opened["conv"].attrs["encoder_trained_on"].tolist()
        # The same network, up to the unit, which also depends on the symmetries.
        ratio = opened["conv"][::8] / np.where(other["conv"][...], other["conv"], 1)
    assert written == [NAMES[k] + suffix for k in encoded for suffix in SUFFIXES["all"]]
    assert trained_on == [NAMES[k] for k in training]
    assert ratio[ratio > 0].std() < 1e-4 * ratio.max()


# --- ResNet-18 -----------------------------------------------------------------------


def test_features_go_to_their_class_and_drawer():
    """The drawings' own pixels serve as features; batches end anywhere."""
    images = np.random.default_rng(0).random((5, 7, 16, 16), np.float32)
    sizes = []

    def features(batch):
        sizes.append(len(batch))
        return np.concatenate([batch.reshape(len(batch), -1)] * 2, 1)

    encoded = _resnet.encode_drawings(features, images, ALL)
    assert encoded.shape == (40, 7, 512)
    assert sizes == [80, 80, 80, 40]
    for index in range(40):
        for drawer in range(7):
            expected = transformed(images[index // 8, drawer], index % 8)
            np.testing.assert_array_equal(
                encoded[index, drawer, :256], expected.ravel()
            )


def enlarging(size: int) -> np.ndarray:
    """The matrix that interpolates linearly from `size` pixels to 224."""
    places = np.clip((np.arange(224) + 0.5) * size / 224 - 0.5, 0, size - 1)
    return np.maximum(1 - np.abs(places[:, None] - np.arange(size)), 0)


def residual_features(state: dict, drawings: np.ndarray) -> np.ndarray:
    """ResNet-18 by the paper's table 1, in float64, without its classifier."""
    import torch
    from torch.nn import functional

    def convolve(x, name, stride):
        weight = state[f"{name}.weight"].double()
        return functional.conv2d(x, weight, None, stride, weight.shape[-1] // 2)

    def normalise(x, name):
        part = {
            key: state[f"{name}.{key}"].double()[:, None, None] for key in STATISTICS
        }
        scaled = (x - part["running_mean"]) / (part["running_var"] + 1e-5).sqrt()
        return scaled * part["weight"] + part["bias"]

    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    matrix = enlarging(drawings.shape[-1])
    large = matrix @ (1 - drawings.astype(np.float64)) @ matrix.T
    colours = (large[:, None] - mean[:, None, None]) / deviation[:, None, None]
    x = normalise(convolve(torch.from_numpy(colours), "conv1", 2), "bn1").relu()
    x = functional.max_pool2d(x, 3, 2, 1)
    for stage in range(1, 5):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            h = normalise(convolve(x, f"{name}.conv1", stride), f"{name}.bn1").relu()
            h = normalise(convolve(h, f"{name}.conv2", 1), f"{name}.bn2")
            if stride == 2:
                down = f"{name}.downsample"
                x = normalise(convolve(x, f"{down}.0", 2), f"{down}.1")
            x = (h + x).relu()
    return x.mean((2, 3)).numpy()


STATISTICS = ("running_mean", "running_var", "weight", "bias")


@pytest.fixture(scope="module")
def state() -> dict:
    """Random weights, with batch statistics unlike those of a new network."""
    import torch
    import torchvision

    generator = torch.Generator().manual_seed(0)

    def draw(name, tensor):
        if tensor.dtype == torch.int64:
            return tensor
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim > 1:
            return noise * math.sqrt(2 / tensor[0].numel())
        if name.endswith(("running_var", "weight")):
            return 0.5 + noise.abs()
        return 0.3 * noise

    fresh = torchvision.models.resnet18().state_dict()
    return {name: draw(name, tensor) for name, tensor in fresh.items()}


@pytest.fixture(scope="module")
def weights(state, tmp_path_factory):
    import torch

    file = tmp_path_factory.mktemp("weights") / "random.pth"
    torch.save(state, file)
    return file


@needs_resnet
def test_features_are_those_of_the_formula(state, weights, drawings):
    chosen = (~drawings[:2, 0]).astype(np.float32)
    features = data.ResNetEncoder(str(weights)).load()(chosen)
    assert features.shape == (2, 512)
    assert features.dtype == np.float32
    expected = residual_features(state, chosen)
    assert expected.std() > 0.1
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-4)


@needs_resnet
def test_drawings_are_enlarged_as_pillow_does(drawings):
    """As in the published extraction, except for its rounding to 8 bits."""
    paper = Image.fromarray(drawings[0, 0]).convert("L")
    expected = np.asarray(paper.resize((224, 224), Image.Resampling.BILINEAR)) / 255
    matrix = enlarging(105)
    actual = matrix @ drawings[0, 0].astype(np.float64) @ matrix.T
    np.testing.assert_allclose(actual, expected, atol=1.01 / 255)


@needs_resnet
def test_a_file_of_features(state, weights, characters, drawings, tmp_path, capsys):
    out = tmp_path / "resnet.h5"
    options = ["--encoder", "resnet18", "--weights", weights, "--transforms", "turns"]
    status, text, err = call(capsys, "omniglot", characters, "--out", out, *options)
    assert (status, err) == (0, "")
    assert "12 classes, 20 exemplars of (512,)" in text
    with h5py.File(out) as opened:
        assert sorted(opened) == ["names", "resnet18"]
        features = opened["resnet18"][...]
        names = opened["names"].asstr()[...].tolist()
        made = dict(opened["resnet18"].attrs)
    assert names == [name + suffix for name in NAMES for suffix in TURNED]
    assert (made["weights"], made["size"]) == ("random.pth", 105)
    assert made["weights_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    for index, drawer in [(0, 0), (1, 0), (6, 19), (11, 7)]:
        ink = ~np.rot90(drawings[index // 4, drawer], index % 4)
        expected = residual_features(state, ink[None].astype(np.float32))[0]
        np.testing.assert_allclose(
            features[index, drawer], expected, rtol=1e-4, atol=1e-4
        )
    assert data.HDF5Classes(str(out)).load().shape == (12, 20, 512)


@needs_resnet
@needs_safetensors
def test_weights_of_either_kind_without_a_classifier(
    state, weights, tmp_path, drawings
):
    from safetensors.torch import save_file

    file = tmp_path / "random.safetensors"
    left_out = ("fc.", "bn1.num_batches_tracked")
    part = {k: v for k, v in state.items() if not k.startswith(left_out)}
    save_file(part, file)
    chosen = (~drawings[0, :2]).astype(np.float32)
    np.testing.assert_array_equal(
        data.ResNetEncoder(str(file)).load()(chosen),
        data.ResNetEncoder(str(weights)).load()(chosen),
    )


@needs_resnet
def test_weights_that_do_not_fit(state, tmp_path):
    import torch
    import torchvision

    broken = {**state, "bn1.bias": state["bn1.bias"] * math.nan}
    cases = [
        (torchvision.models.resnet34().state_dict(), "Unexpected.* .layer1.2.conv1"),
        (broken, "must be finite, but bn1.bias is not$"),
        ({"state_dict": state, "epoch": 3}, "must be a state_dict"),
    ]
    for number, (content, message) in enumerate(cases):
        file = tmp_path / f"{number}.pth"
        torch.save(content, file)
        with pytest.raises(ValueError, match=message):
            data.ResNetEncoder(str(file)).load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoder", "resnet18", "--size", "28"], "size must be left out.* got 28"),
        (["--weights", "a.pth"], "weights are only for --encoder resnet18.* pixels"),
        (["--encoder", "conv", "--whiten", "3"], "encoder replaces .* got whiten=3"),
        (["--encoder", "conv"], "num_training must .* classes, 3, .* got 92"),
    ],
)
def test_bad_options_of_omniglot(characters, tmp_path, capsys, options, message):
    out = tmp_path / "a.h5"
    status, _, err = call(capsys, "omniglot", characters, "--out", out, *options)
    assert status == 2
    assert "Traceback" not in err
    assert re.search(message, err)
    assert not out.exists()


# --- clusters ------------------------------------------------------------------------


def planted(classes: int, size: int, dim: int = 16, noise: float = 0.1, seed: int = 0):
    """Shuffled rows around distant centres, and the centre of each row."""
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(classes), size))
    centres = 10 * rng.normal(size=(classes, dim)) + 50
    rows = centres[owner] + noise * rng.normal(size=(len(owner), dim))
    return rows.astype(np.float32), owner


@needs_faiss
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("seed", range(2))
def test_planted_clusters_are_found(metric, seed):
    rows, owner = planted(60, 7, noise=0.01, seed=seed)
    found = data.NeighbourClusters(7, 60, metric, seed).find(rows)
    assert found.shape == (60, 7)
    assert sorted(found.ravel()) == list(range(420))
    assert (owner[found] == owner[found][:, :1]).all()
    assert sorted(owner[found[:, 0]]) == list(range(60))


@needs_faiss
def test_left_over_rows_are_the_far_ones():
    """Each cluster has ten rows; the six near its centre make the class."""
    rows, owner = planted(20, 10, noise=0)
    far = np.zeros(len(rows), bool)
    for k in range(20):
        far[np.flatnonzero(owner == k)[::3]] = True
    direction = np.random.default_rng(1).normal(size=rows.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    rows = (rows + np.where(far, 1, 0.1)[:, None] * direction).astype(np.float32)
    found = data.NeighbourClusters(6, 20).find(rows)
    assert (owner[found] == owner[found][:, :1]).all()
    assert not far[found].any()


@needs_faiss
def test_the_metric_decides_what_is_near():
    """Ten directions with two lengths: twenty places, but ten angles."""
    rng = np.random.default_rng(0)
    direction = np.repeat(np.eye(10), 8, 0)
    length = np.tile(np.repeat([1.0, 100.0], 4), 10)
    rows = direction * length[:, None] + 0.01 * rng.normal(size=(80, 10))
    rows = rows.astype(np.float32)
    angle, place = np.arange(80) // 8, np.arange(80) // 4
    found = data.NeighbourClusters(8, 10, "cosine").find(rows)
    assert (angle[found] == angle[found][:, :1]).all()
    ends = np.flatnonzero(length == 100)  # by distance, each far end is its own place
    found = ends[data.NeighbourClusters(4, 10).find(rows[ends])]
    assert (place[found] == place[found][:, :1]).all()


def test_classes_are_filled_with_the_nearest_pairs_first():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        classes, exemplars = rng.integers(1, 8, 2)
        rows = classes * exemplars + rng.integers(0, 20)
        squares = rng.random((rows, classes)).astype(np.float32)
        expected = [[] for _ in range(classes)]
        taken = set()
        for pair in np.argsort(squares, axis=None):
            row, wanted = divmod(int(pair), int(classes))
            if row not in taken and len(expected[wanted]) < exemplars:
                expected[wanted].append(row)
                taken.add(row)
        found = _clusters._fill(squares, int(exemplars))
        assert [set(row) for row in found] == [set(row) for row in expected]


def test_the_first_centroids_are_one_from_each_cluster():
    rows, owner = planted(100, 5)
    chosen = _clusters._first_centroids(rows, 100, np.random.default_rng(0))
    assert sorted(owner[chosen]) == list(range(100))


def test_squared_distances():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, 7)).astype(np.float32) for n in (5, 3))
    expected = ((a[:, None].astype(np.float64) - b) ** 2).sum(-1)
    np.testing.assert_allclose(_clusters._squares(a, b), expected, rtol=1e-5)
    assert (_clusters._squares(a, a) >= 0).all()


@needs_faiss
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_overlapping_rows_and_the_seed(metric):
    """Without real clusters, classes are still balanced, near, disjoint and seeded."""
    rows = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    clusters = data.NeighbourClusters(5, metric=metric, seed=3)
    found = clusters.find(rows)
    assert found.shape == (40, 5)  # half of the 80 that the rows can fill
    assert len(set(found.ravel())) == 200
    np.testing.assert_array_equal(found, clusters.find(rows))
    np.testing.assert_array_equal(found, clusters.find(rows * np.float32(2**40)))
    other = dataclasses.replace(clusters, seed=4).find(rows)
    assert {frozenset(row) for row in other} != {frozenset(row) for row in found}
    points = rows
    if metric == "cosine":
        points = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    within = np.square(points[found] - points[found].mean(1, keepdims=True)).sum(-1)
    assert within.mean() < 0.6 * np.square(points - points.mean(0)).sum(-1).mean()
    # The order has no trend that a split by index would see.
    distance = np.sqrt(within)
    ranks = distance.argsort(1).argsort(1).mean(0)
    np.testing.assert_allclose(ranks, 2, atol=0.8)


@needs_faiss
def test_rows_that_cannot_be_clustered():
    rows = np.ones((10, 3), np.float32)
    bad, zero = rows.copy(), rows.copy()
    bad[4, 1], zero[7] = math.inf, 0
    cases = [
        (data.NeighbourClusters(11), rows, "number of rows, 10, got 11 times 1"),
        (data.NeighbourClusters(2), bad, "matrix must be finite, got 1 of 30"),
        (data.NeighbourClusters(2, None, "cosine"), zero, "of zeros.* row 7"),
    ]
    for clusters, matrix, message in cases:
        with pytest.raises(ValueError, match=message):
            clusters.find(matrix)


# --- embeddings ----------------------------------------------------------------------


@needs_faiss
def test_a_file_of_clusters(tmp_path, capsys):
    rows, owner = planted(12, 9)
    source, out = tmp_path / "table.npy", tmp_path / "clusters.h5"
    np.save(source, rows)
    options = ["--exemplars", 4, "--classes", 12, "--seed", 2, "--distance", "cosine"]
    status, text, err = call(capsys, "clusters", source, "--out", out, *options)
    assert (status, err) == (0, "")
    assert "12 classes, 4 exemplars of (16,)" in text
    with h5py.File(out) as opened:
        assert sorted(opened) == ["clusters", "names", "rows"]
        features, found = opened["clusters"][...], opened["rows"][...]
        assert opened["names"].asstr()[11] == "cluster11"
        made = dict(opened["clusters"].attrs)
    np.testing.assert_array_equal(features, rows[found])  # unchanged, not unit length
    assert (owner[found] == owner[found][:, :1]).all()
    assert len(set(found.ravel())) == 48
    assert made["embeddings_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert (made["metric"], made["seed"], made["num_rows"]) == ("cosine", 2, 108)
    np.testing.assert_array_equal(data.HDF5Classes(str(out)).load(), features)
    assert call(capsys, "clusters", source, "--out", out, *options)[0] == 2


@pytest.mark.parametrize("dtype", ["f2", ">f4", "u1"])
def test_matrices_of_any_number_type(tmp_path, dtype):
    matrix = np.arange(12).reshape(4, 3)
    for order in "CF":
        np.save(tmp_path / "m.npy", matrix.astype(dtype, order=order))
        read = data.read_embeddings(tmp_path / "m.npy")
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, matrix)


@needs_safetensors
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int32])
def test_tensors_of_any_number_type(tmp_path, dtype):
    from safetensors.numpy import save_file

    matrix, file = np.arange(12).reshape(4, 3), tmp_path / "m.safetensors"
    save_file({"norm": np.ones(3, dtype), "embed": matrix.astype(dtype)}, file)
    for tensor in ("", "embed"):
        read = data.read_embeddings(file, tensor)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, matrix)


@needs_safetensors
def test_tensors_that_are_not_there(tmp_path):
    from safetensors.numpy import save_file

    file = tmp_path / "m.safetensors"
    matrix = np.ones((2, 3), np.float32)
    save_file({"embed": matrix, "head": matrix, "norm": matrix[0]}, file)
    for source, tensor, message in [
        (file, "", r"^tensor: .* has no tensor ''; it holds 'embed' \[2, 3\]"),
        (file, "embd", "^tensor: .*'embd'; did you mean 'embed'"),
    ]:
        with pytest.raises(ValueError, match=message):
            data.read_embeddings(source, tensor)


def test_matrices_that_cannot_be_read(tmp_path):
    def saved(name, array):
        np.save(tmp_path / name, array)
        return tmp_path / name

    other = tmp_path / "table.csv"
    other.write_text("1,2")
    for source, tensor, message in [
        (saved("a.npy", np.ones(3)), "", r"\[row, dim\] and not .* got \[3\]"),
        (saved("c.npy", np.ones((2, 2)) + 1j), "", "floats or integers, got complex"),
    ]:
        with pytest.raises(ValueError, match=message):
            data.read_embeddings(source, tensor)


EXTRAS = {
    "faiss": ["clusters", "a.npy", "--exemplars", 2],
    "safetensors": ["clusters", "a.safetensors", "--exemplars", 2],
    "torchvision": ["omniglot", "none.zip", "--encoder", "resnet18"],
}


@pytest.mark.parametrize("module", EXTRAS)
def test_an_extra_is_asked_for_before_the_work(tmp_path, capsys, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    for suffix in ("npy", "safetensors"):
        with open(f"a.{suffix}", "wb") as stream:
            np.save(stream, np.ones((4, 2)))
    status, _, err = call(capsys, *EXTRAS[module], "--out", "a.h5")
    assert status == 2
    assert err.count("\n") == 1
    assert f"needs {module}, which is not installed: make EXTRA=" in err
