"""Measures of discrimination, against closed forms, NumPy and the reference data."""

import dataclasses
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import icl
import opto
from icl import measures
from icl.baselines.discrimination import linear_discriminant, weighted_labels
from icl.batches import batch
from icl.experiments import Experiment
from icl.measures import discrimination, kernel_fit, label_directions
from icl.models import fold_layer_norms
from icl.models.encoder import EncoderConfig, InterleavedTokens, PointTokens
from icl.summaries import CalibrationError
from icl.tasks.discrimination import ShiftedMean, Variance
from icl.tasks.regression import LinearRegression
from icl.training import Training


TASK = ShiftedMean(dim=3, context=12, nuisance_std=0.5)


def drawn(size=400, task=TASK):
    return batch(task, size, key=jax.random.key(3))


def encoder(task=TASK, **fields):
    settings = {"num_layers": 2, "d_model": 8, "num_heads": 2, **fields}
    return EncoderConfig(**settings).build(task.interface, key=jax.random.key(1))


def taken(measure, model, sequences, task=TASK):
    return np.asarray(jax.jit(lambda m: measure.fn(m, task, sequences, ()))(model))


class Predictor(eqx.Module):
    """A closed form in the place of a model."""

    fn: object = eqx.field(static=True)
    blocks: tuple = ()
    input_axes: tuple = eqx.field(static=True, default=("pair dim", "pair", "dim"))

    def __call__(self, context_x, context_y, query_x, *, tap=opto.identity):
        return tap("logits", self.fn(context_x, context_y, query_x), "")


# Streams of the query


@pytest.mark.parametrize("target", ["log_odds", "log_likelihood_ratio"])
def test_the_lens_is_the_read_out_of_recorded_streams(target):
    model, sequences = encoder(), drawn()
    found = taken(discrimination.lens_correlation(target), model, sequences)
    sites = ("embed", "blocks.0.resid_post", "blocks.1.resid_post")
    _, record = opto.run(model, *TASK.inputs(sequences), record=sites)
    weight, bias = model.head.weight[0], model.head.bias[0]
    for k, site in enumerate(sites):
        logits = np.asarray(record[site][:, -1] @ weight + bias)
        wanted = stats.pearsonr(
            logits, np.asarray(getattr(sequences, target))
        ).statistic
        np.testing.assert_allclose(found[k], wanted, rtol=1e-4, atol=1e-5)


def test_the_held_out_r2_of_least_squares():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    y = x @ rng.normal(size=(5, 2)) + rng.normal(size=(200, 2)) + 3
    design = np.concatenate([x, np.ones((200, 1))], 1)
    weights = np.linalg.lstsq(design[:100], y[:100], rcond=None)[0]
    left = y[100:]
    error = np.sum((left - design[100:] @ weights) ** 2)
    wanted = 1 - error / np.sum((left - left.mean(0)) ** 2)
    found = discrimination.held_out_r2(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    exact = discrimination.held_out_r2(jnp.asarray(x), jnp.asarray(x[:, :1]))
    np.testing.assert_allclose(exact, 1, atol=1e-6)


def test_probes_of_each_target():
    model, sequences = encoder(), drawn()
    for target in ("log_odds", "log_likelihood_ratio", "query_y", "mean", "shift"):
        found = taken(discrimination.probe(target), model, sequences)
        assert found.shape == (3,)
        assert np.all(found < 1)
    # Of the query, a linear map can tell the shift in part, and its label not at all.
    shift = taken(discrimination.probe("shift"), model, sequences)[0]
    assert shift > 0.05 > taken(discrimination.probe("query_y"), model, sequences)[0]


# Steering


@pytest.mark.parametrize("along", ["mean", "shift", "query"])
def test_steering_a_linear_discriminant(along):
    """It is linear in the query: $(m_1 - m_0) \\cdot s u$."""
    sequences = drawn()
    x, y = (np.asarray(a) for a in (sequences.context_x, sequences.context_y))
    raw = sequences.query_x if along == "query" else sequences.parameters[along]
    unit = np.asarray(raw) / np.linalg.norm(raw, axis=1, keepdims=True)
    means = [
        (x * (y == k)[..., None]).sum(1) / np.maximum((y == k).sum(1), 1)[:, None]
        for k in (0, 1)
    ]
    both = np.asarray([(each == 1).any() and (each == 0).any() for each in y])
    each = np.where(both, ((means[1] - means[0]) * unit).sum(1), 0.0)
    measure = discrimination.steering(along, size=0.7)
    found = taken(measure, Predictor(linear_discriminant), sequences)
    np.testing.assert_allclose(found[0], 0.7 * each.mean(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tokens", ["query", "context", "all"])
def test_steering_the_bayes_predictor_is_its_own_measure(tokens):
    measure = discrimination.steering("mean", tokens)
    model, bayes = taken(measure, Predictor(TASK.log_odds), drawn())
    np.testing.assert_allclose(model, bayes, rtol=1e-5, atol=1e-6)
    # Without a prior that holds it, only differences from the context count.
    wide = dataclasses.replace(TASK, nuisance_std=1e3)
    sequences = drawn(task=wide)
    _, found = taken(measure, Predictor(wide.log_odds), sequences, wide)
    if tokens == "all":
        np.testing.assert_allclose(found, 0, atol=2e-2)


# What heads carry


def test_one_head_carries_everything_at_the_query():
    """In one layer, the context reaches the logit only through the query's `z`."""
    model, sequences = encoder(num_layers=1, num_heads=1), drawn()
    for tokens, wanted in (("query", 1.0), ("context", 0.0), ("all", 1.0)):
        measure = discrimination.exchanged_patching(tokens)
        found = taken(measure, model, sequences)
        np.testing.assert_allclose(found, [[wanted]], atol=1e-5)


def test_exchanged_patching_is_a_patch_of_one_head():
    model, sequences = encoder(), drawn()
    other = TASK.corruptions["labels_exchanged"](sequences)
    site = "blocks.1.attn.z"
    clean, _ = opto.run(model, *TASK.inputs(sequences))
    exchanged, record = opto.run(model, *TASK.inputs(other), record=site)
    patch = opto.Patch(site, record, head=1, seq=-1)
    patched, _ = opto.run(model, *TASK.inputs(sequences), edits=[patch])
    sign = np.where(np.asarray(sequences.query_y) == 1, 1, -1)
    change, whole = (np.mean(sign * (x - clean)) for x in (patched, exchanged))
    found = taken(discrimination.exchanged_patching(), model, sequences)
    np.testing.assert_allclose(found[1, 1], change / whole, rtol=1e-3)


# Kernels


def scores(kernel, x, query):
    matrix = jnp.array([[2.0, 1, 0], [0, -1, 0.5], [0.3, 0, 1]])
    return {
        "published": x @ query / 2,  # d_head of the encoder is 4.
        "dot": 1.7 * x @ query,
        "bilinear": x @ (query @ matrix),
        "gaussian": -0.8 * jnp.sum((x - query) ** 2, -1),
    }[kernel]


@pytest.mark.parametrize("centre", ["origin", "context"])
@pytest.mark.parametrize("kernel", ["published", "dot", "bilinear", "gaussian"])
def test_a_kernel_regression_is_found(kernel, centre):
    def predicted(x, y, query):
        middle = x.mean(0) if centre == "context" else 0.0
        # Any scale and offset of the logit is as good.
        own = weighted_labels(scores(kernel, x - middle, query - middle), y)
        return 3.0 * own - 1.0

    model = Predictor(predicted, blocks=encoder().blocks)
    found = taken(kernel_fit.kernel_fit(kernel, centre), model, drawn())
    np.testing.assert_allclose(found, 1, atol=1e-5 if kernel == "published" else 2e-3)


def test_the_kernel_of_the_bayes_predictor_against_numpy():
    sequences = drawn()
    x, y = (np.float64(a) for a in (sequences.context_x, sequences.context_y))
    raw = np.exp(np.einsum("bid,bd->bi", x, np.float64(sequences.query_x)) / 2)
    regression = (raw * (2 * y - 1)).sum(1) / raw.sum(1)
    half = np.asarray(sequences.log_odds)[200:]
    wanted = stats.pearsonr(regression[200:], half).statistic
    found = taken(kernel_fit.bayes_kernel_fit(), encoder(), sequences)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


# Directions of labels


def test_the_alignment_against_numpy():
    model = encoder()
    found = taken(label_directions.ov_alignment(), model, drawn(4))
    read, label = model.head.weight[0], model.embedding.y.weight[:, 0]
    for layer, head in np.ndindex(2, 2):
        attn, rows = model.blocks[layer].attn, slice(4 * head, 4 * head + 4)
        written = attn.output.weight[:, rows] @ attn.value.weight[rows] @ label
        lengths = np.linalg.norm(written) * np.linalg.norm(read)
        wanted = np.dot(written, read) / lengths
        np.testing.assert_allclose(found[layer, head], wanted, rtol=1e-4)


def test_p_values_of_a_head_that_copies_are_those_of_a_random_direction():
    """Then $\\cos^2$ of a random direction is distributed as Beta(1/2, (n - 1)/2)."""
    size = 8
    model = encoder(num_layers=1, num_heads=1)
    weights = lambda m: (m.blocks[0].attn.value.weight, m.blocks[0].attn.output.weight)
    model = eqx.tree_at(weights, model, (jnp.eye(size), jnp.eye(size)))
    cosine = float(taken(label_directions.ov_alignment(), model, drawn(4))[0, 0])
    wanted = stats.beta(0.5, (size - 1) / 2).sf(cosine**2)
    found = taken(label_directions.ov_alignment_p(20_000), model, drawn(4))[0, 0]
    np.testing.assert_allclose(found, wanted, atol=4 * np.sqrt(0.25 / 20_000))
    # Aligned with the read-out, no random direction is better.
    own = lambda m: m.embedding.y.weight
    model = eqx.tree_at(own, model, model.head.weight.T)
    found = taken(label_directions.ov_alignment_p(99), model, drawn(4))
    np.testing.assert_allclose(found, [[0.01]], rtol=1e-5)


def test_labels_as_a_table():
    model = encoder(tokens=InterleavedTokens())
    direction = label_directions.label_direction(model)
    table = np.asarray(model.embedding.y.weight)
    np.testing.assert_allclose(direction, table[1] - table[0])


# Calibration


def test_the_calibration_error_by_hand():
    rng = np.random.default_rng(1)
    logit, label = rng.normal(size=1000), rng.integers(0, 2, 1000).astype(float)
    found = CalibrationError("x", "y", bins=4)({"x": logit, "y": label})
    ranked = sorted(zip(logit, label, strict=True))
    errors = []
    for k in range(4):
        piece = ranked[250 * k : 250 * (k + 1)]
        chance = np.mean([1 / (1 + np.exp(-a)) for a, _ in piece])
        errors.append(abs(chance - np.mean([b for _, b in piece])))
    np.testing.assert_allclose(found, np.mean(errors), rtol=1e-9)


# In commands, and for other models and tasks


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    experiment = Experiment(
        task=TASK,
        model=EncoderConfig(d_model=8, num_heads=2),
        training=Training(64, batch_size=16),
        evaluations={"train": icl.TaskSet(50)},
    )
    icl.run_experiment(experiment, folder)
    return folder


TEXTS = (
    "lens_correlation",
    "probe('mean')",
    "steering('shift', tokens='all')",
    "exchanged_patching('context')",
    "kernel_fit('gaussian')",
    "bayes_kernel_fit",
    "ov_alignment",
    "ov_alignment_p(samples=100)",
)


def test_texts_are_read_and_replayed(run_folder):
    found = {text: measures.parse(text) for text in TEXTS}
    replay = icl.replay(run_folder, {str(k): m for k, m in enumerate(found.values())})
    for k in range(len(TEXTS)):
        assert len(replay[str(k)]) == 2
        assert np.isfinite(replay[str(k)]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: discrimination.probe("mu"), "target must be one of log_odds, "),
        (lambda: discrimination.steering(size=0.0), "size must be positive and finite"),
        (lambda: kernel_fit.kernel_fit("rbf"), "kernel must be one of published, dot"),
        (lambda: label_directions.ov_alignment_p(0), "samples must be a positive int"),
    ],
)
def test_bad_arguments(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_a_task_or_a_model_does_not_have():
    other = Variance(dim=3, context=12)
    with pytest.raises(ValueError, match="'mean' is a parameter of ShiftedMean"):
        discrimination.steering().fn(encoder(other), other, drawn(8, other), ())
    with pytest.raises(ValueError, match="tokens have no labels"):
        label_directions.label_direction(encoder(tokens=PointTokens()))
    regression = LinearRegression()
    examples = batch(regression, 4, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"needs sequences of icl\.tasks\.discrim"):
        discrimination.probe().fn(encoder(), regression, examples, ())


def test_what_a_post_norm_model_does_not_have(run_folder, unchecked):
    """Lenses and circuits that assume a stream of sums refuse it by name."""
    model, inputs = encoder(), TASK.inputs(drawn(2))
    with pytest.raises(ValueError, match="can only fold norms into .* got Encoder"):
        fold_layer_norms(model)
    with pytest.raises(ValueError, match=r"no site 'final\.in'"):
        opto.lens.logit_lens(model, *inputs)
    with pytest.raises(ValueError, match="Encoder has no module .final_norm"):
        opto.lens.logit_terms(model, *inputs)
    for measure in (measures.ov_copying(), measures.composition()):
        with pytest.raises(ValueError, match="needs 'unembed', which Encoder does not"):
            icl.replay(run_folder, {"x": measure})


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/likelihood_ratio"


@pytest.mark.skipif(not REFERENCE.exists(), reason="needs the reference data")
def test_the_alignment_of_the_reference():
    from icl.compat.likelihood_ratio import load_model

    with (
        np.load(REFERENCE / "model_Base.npz") as data,
        np.load(REFERENCE / "analysis_Base.npz") as analysis,
    ):
        names = [name for name in data if name.startswith("params/")]
        parameters = {name.removeprefix("params/"): data[name] for name in names}
        model = load_model(parameters, str(data["config"]))
        wanted = analysis["ov_alignment"]
    found = label_directions.alignment(model, label_directions.label_direction(model))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
