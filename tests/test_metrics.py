import jax
import jax.numpy as jnp
import numpy as np
import pytest

from icl.tasks.classification import classification


NAMES = ("loss", "accuracy", "probability")
PREFIXES = ("", "in_context_", "out_of_context_")


def expected(logits, target, context):
    """The definition in float64, with Python sets, one label at a time."""
    logits = np.asarray(logits, np.float64)
    everything = set(range(len(logits)))
    choices = {
        "": everything,
        "in_context_": set(context),
        "out_of_context_": everything - set(context),
    }
    out = {}
    for prefix, labels in choices.items():
        labels = sorted(labels)
        loss, accuracy, probability = np.nan if prefix else np.inf, 0.0, 0.0
        if target in labels:
            values = logits[labels]
            top = values.max()
            probability = np.exp(logits[target] - top) / np.exp(values - top).sum()
            loss = top + np.log(np.exp(values - top).sum()) - logits[target]
            accuracy = float(labels[int(np.argmax(values))] == target)
        out |= {
            prefix + "loss": loss,
            prefix + "accuracy": accuracy,
            prefix + "probability": probability,
        }
    p = np.exp(logits - logits.max())
    out["context_probability"] = sum(p[k] for k in set(context)) / p.sum()
    return out


def scores(logits, target, context):
    return jax.jit(classification)(
        jnp.asarray(logits, jnp.float32), jnp.asarray(target), jnp.asarray(context)
    )


def check(logits, target, context):
    got, want = scores(logits, target, context), expected(logits, target, context)
    assert set(got) == set(want)
    for name, value in got.items():
        assert value.shape == ()
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(value, want[name], 3e-6, 3e-6, err_msg=name)


@pytest.mark.parametrize("context", [[1, 3], [3, 3], [0, 3, 0, 4], [2, 2, 1, 2], [3]])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_against_the_definition(context, scale):
    rng = np.random.default_rng(len(context))
    for target in range(5):
        check(rng.normal(size=5).astype(np.float32) * scale, target, context)


def test_many_labels():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=12_800).astype(np.float32) * 3
    check(logits, 12_799, [12_799, 5])
    check(logits, 77, [12_799, 5])
    check(logits, int(logits.argmax()), rng.integers(12_800, size=48).tolist())


def test_every_label_in_the_context():
    check([0.3, -0.2], 1, [1, 0])
    got = scores([0.3, -0.2], 1, [1, 0])
    np.testing.assert_allclose(got["context_probability"], 1, rtol=1e-6)
    assert np.isnan(got["out_of_context_loss"])  # No such answer exists.
    assert got["out_of_context_probability"] == 0


@pytest.mark.parametrize("target", range(4))
@pytest.mark.parametrize("context", [[2, 1], [1, 2], [3, 3]])
def test_of_equal_logits_the_lowest_label_wins(target, context):
    check(np.zeros(4), target, context)
    accuracies = [scores(np.zeros(4), k, context)["accuracy"] for k in range(4)]
    assert accuracies == [1, 0, 0, 0]


@pytest.mark.parametrize("size", [1e4, -1e4, 1e9, -1e9])
def test_large_logits(size):
    # As after `CopyFromPattern`, which copies the answer from the context.
    logits = np.float32([size, 1.0, 2.0, size])
    for target in range(4):
        check(logits, target, [1, 2])
        check(logits, target, [0, 1])


def test_infinite_logits():
    got = scores([-np.inf, 1.0, 1.0], 0, [0, 1])
    assert [got[p + "loss"] for p in PREFIXES[:2]] == [np.inf] * 2
    assert np.isnan(got["out_of_context_loss"])
    got = scores([-np.inf, 1.0, 1.0], 1, [0, 1])
    np.testing.assert_allclose(got["loss"], np.log(2), 1e-6)
    assert got["in_context_loss"] == 0
    assert got["context_probability"] == 0.5


def test_labels_beyond_the_logits():
    # JAX would clamp the index and silently score another label.
    got = scores([5.0, 1.0, 1.0], 3, [0, 1])
    assert got["loss"] == np.inf
    assert got["accuracy"] == 0
    assert np.isnan(scores([5.0, 1.0, 1.0], 1, [1, 7])["in_context_loss"])


def test_of_nan_nothing_is_said():
    """NaN logits are not counted as wrong; metrics over finite logits stay known."""
    for target in range(3):
        got = scores([np.nan, 1.0, 1.0], target, [0, 1])
        for name in ("loss", "accuracy", "probability"):
            assert np.isnan(got[name])
            assert np.isnan(got[f"in_context_{name}"])
            assert np.isnan(got[f"out_of_context_{name}"]) == (target < 2)
        assert target < 2 or got["out_of_context_accuracy"] == 1


def test_half_precision_is_scored_in_single():
    logits = jnp.asarray([3.0, 1.0, 0.5], jnp.bfloat16)
    got = classification(logits, jnp.asarray(1), jnp.asarray([1, 2]))
    want = expected(np.asarray(logits, np.float32), 1, [1, 2])
    assert {value.dtype for value in got.values()} == {jnp.dtype("float32")}
    for name in want:
        np.testing.assert_allclose(got[name], want[name], 1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradient_of_the_loss(wrap):
    rng = np.random.default_rng(3)
    logits = jnp.asarray(rng.normal(size=(6, 5)), jnp.float32)
    target = jnp.asarray([0, 1, 2, 3, 4, 1])
    # In context, out of it, repeated: each row has some undefined metrics.
    context = jnp.asarray([[0, 1], [0, 2], [2, 2], [1, 3], [1, 1], [4, 1]])

    def mean_loss(logits):
        out = jax.jit(jax.vmap(classification))(logits, target, context)
        return out["loss"].mean(), out

    (_, out), grad = wrap(jax.value_and_grad(mean_loss, has_aux=True))(logits)
    assert np.isnan(out["in_context_loss"]).any()
    assert np.isnan(out["out_of_context_loss"]).any()
    values = np.asarray(logits, np.float64)
    softmax = np.exp(values) / np.exp(values).sum(1, keepdims=True)
    want = (softmax - np.eye(5)[np.asarray(target)]) / 6
    np.testing.assert_allclose(grad, want, atol=1e-7)


@pytest.mark.parametrize("context", [[0, 1], [1, 1], [1, 2]])
@pytest.mark.parametrize("labels", [2, 3, 4])
def test_every_gradient_is_finite(context, labels):
    logits = jnp.linspace(-1, 1, max(labels, max(context) + 1), dtype=jnp.float32)
    args = jnp.asarray(0), jnp.asarray(context)
    for name, grad in jax.jit(jax.jacrev(classification))(logits, *args).items():
        assert np.isfinite(grad).all(), name


def test_gradient_in_context_by_finite_differences():
    logits = np.array([0.3, -0.4, 0.9, 0.1])
    args = 2, [2, 0, 2]
    name = "in_context_loss"
    grad = jax.grad(lambda x: scores(x, *args)[name])(jnp.asarray(logits, jnp.float32))
    step = 1e-6 * np.eye(4)
    want = [
        (expected(logits + s, *args)[name] - expected(logits - s, *args)[name]) / 2e-6
        for s in step
    ]
    np.testing.assert_allclose(grad, want, atol=1e-6)
    assert grad[1] == grad[3] == 0
