"""Models against what the public code of von Oswald et al. (2023) computes."""

import functools
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from icl.compat.gd_upstream import load_model
from icl.models.constructions import descent_block, descent_model, interpolated


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/gd_upstream"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
# In float32, a plain NumPy forward pass is as far from the reference: its sums are near
# zero.
FAR = {"variant_sumnorm_d4_n6_L2": {"rtol": 1e-3, "atol": 1e-3}}
FILES = sorted(
    path.stem
    for pattern in ("lsa_*", "gd_d*", "gd_two*", "gdpp_*", "variant_*", "copy_*")
    for path in REFERENCE.glob(f"{pattern}.npz")
    if "gradient" not in path.stem
)


@functools.cache
def read(name):
    with np.load(REFERENCE / f"{name}.npz") as data:
        return dict(data)


def under(data, prefix):
    return {k.removeprefix(prefix): v for k, v in data.items() if k.startswith(prefix)}


def loaded(data, **changes):
    settings = json.loads(str(data["config"])) | changes
    return load_model(under(data, "params/"), settings)


@needs_reference
@pytest.mark.parametrize("name", FILES)
def test_a_model_is_the_reference(name):
    data = read(name)
    model = loaded(data)
    close = functools.partial(
        np.testing.assert_allclose, **FAR.get(name, {"rtol": 1e-5, "atol": 1e-5})
    )
    found, record = opto.run(model, data["tokens"], record="**")
    close(found, data["prediction"])
    close(record["embed"], data["residual"][0])
    for i in range(model.num_layers):
        close(record[f"blocks.{i}.resid_post"], data["residual"][i + 1])
        close(record[f"blocks.{i}.attn.pattern"], data[f"attention/{i}"])
    bare = jax.vmap(model)(jnp.asarray(data["tokens"]))
    close(bare, data["prediction"])
    if "loss" in data:
        error = np.asarray(found) - data["target"][:, -1]
        close(0.5 * np.mean(error**2), data["loss"])


@needs_reference
def test_text_of_the_config_is_read():
    data = read("lsa_d4_n6_L1_untied")
    model = load_model(under(data, "params/"), str(data["config"]))
    assert model(jnp.asarray(data["tokens"][0])).shape == ()


@needs_reference
def test_edits_work_on_each_application_of_a_tied_layer():
    data = read("lsa_d4_n6_L3_tied")
    model = loaded(data)
    tokens = jnp.asarray(data["tokens"])
    edit = opto.Zero("blocks.1.attn.z")
    _, record = opto.run(model, tokens, record="**.resid_post", edits=[edit])
    first, second = (record[f"blocks.{i}.resid_post"] for i in (0, 1))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, data["residual"][1], rtol=1e-5, atol=1e-5)


@needs_reference
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 2}, "that the model does not have: .*/layer_2/query/w"),
        ({"key_size": 4}, r"query/w must have the shape \[5, 4\], got \[5, 5\]"),
        ({"emb_size": 6}, r"query/w must have the shape \[6, 5\], got \[5, 5\]"),
        ({"pos_enc": True}, "pos_enc without concat_pos_enc is not supported"),
        ({"att_only_trans": False}, "an MLP in untied layers is not supported"),
        ({"layer_norm": True}, "parameters lack transformer/~trans_block/norm_1/"),
        ({"in_proj": True}, "parameters lack the matrix transformer/emb/w"),
        ({"sum_norm": True, "use_softmax": True}, "sum_norm with a softmax is not"),
        ({"layer_nrm": True}, "config: no setting 'layer_nrm'; did you mean 'layer_n"),
        ({"num_layers": 0}, "config: num_layers must be a positive integer, got 0"),
        ({"key_size": 5.0}, "config: key_size must be a positive integer, got 5.0"),
        ({"y_update": "no"}, "config: y_update must be of type bool, got 'no'"),
        ({"clip": "0"}, "config: clip must be at least 0 and finite, got '0'"),
        ({"dampening": 0.0}, "config: dampening must be positive and finite, got 0"),
        ({"use_non_lin_mix": True}, "parameters lack .*non_lin_mix/w"),
        ({"use_bias": True}, "parameters lack .*query/b"),
        ({"deq": True}, "deq is True, but parameters have untied layers"),
        ({"input_size": 6}, "input_size is 6 and classic.* but tokens have 5 channels"),
        ({"classic_token_const": True}, "const is True, but tokens have 5 channels"),
        (
            {"pos_enc": True, "concat_pos_enc": True, "zero_pos_enc": True},
            "pos_enc with zero_pos_enc is not supported",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        loaded(read("lsa_d4_n6_L3_untied"), **changes)


@needs_reference
@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("variant_mix", {"use_non_lin_mix": False}, "does not have: .*non_lin_mix/w"),
        ("variant_mix", {"use_softmax": True}, "does not have: .*non_lin_mix/w"),
        ("variant_bias", {"use_bias": False}, "does not have: .*key/b, "),
        ("variant_mlp_tied", {"widening_factor": 3}, r"shape \[5, 15\], got \[5, 10\]"),
        ("variant_layernorm_tied", {"deq": False}, "deq is False, but .* have tied"),
    ],
)
def test_a_config_that_contradicts_its_arrays_is_refused(name, changes, message):
    with pytest.raises(ValueError, match=message):
        loaded(read(f"{name}_d4_n6_L2"), **changes)


@needs_reference
def test_gradient_descent_has_the_settings_of_gradient_descent():
    data = read("gd_d4_n6_L2_eta6_w0rand")
    own = {"dampening": 0.5, "deq": False, "use_softmax": True, "num_heads": 2}
    model = loaded(data, **own, use_bias=True, layer_norm=True, include_query=True)
    found = jax.vmap(model)(jnp.asarray(data["tokens"]))
    np.testing.assert_allclose(found, data["prediction"], rtol=1e-5, atol=1e-5)
    damped = jax.vmap(loaded(data, gd_dampening=0.5))(jnp.asarray(data["tokens"]))
    assert np.abs(damped - data["prediction"]).max() > 0.01
    with pytest.raises(ValueError, match="gd_deq is False, but .* have tied layers"):
        loaded(data, gd_deq=False)


@needs_reference
def test_other_parameters_are_refused():
    data = read("lsa_d4_n6_L3_untied")
    parameters, config = under(data, "params/"), json.loads(str(data["config"]))
    more = parameters | {"transformer/other/w": np.zeros(5)}
    with pytest.raises(ValueError, match="does not have: transformer/other/w"):
        load_model(more, config)
    name = "transformer/~trans_block/layer_0/query/w"
    more = parameters | {name: parameters[name].astype(int)}
    with pytest.raises(ValueError, match="query/w must be of type .*, got int64"):
        load_model(more, config)
    with pytest.raises(ValueError, match="config must be a mapping or its JSON"):
        load_model(parameters, "{bad")
    with pytest.raises(ValueError, match="must be of one Haiku module, got none"):
        load_model({}, config)
    with pytest.raises(ValueError, match="config lacks 'num_layers'"):
        load_model(parameters, {})


# Constructions


def predictions(model, x, y, query):
    points = jnp.concatenate([x, query[:, None]], 1)
    values = jnp.concatenate([y, jnp.zeros_like(y[:, :1])], 1)
    return np.asarray(jax.vmap(model)(points, values))


def descended(x, y, query, rate, curvature, steps):
    """Gradient descent and GD++ in NumPy, from zero, for one example.

    GD++ moves the points after each step, so weights are of points that have moved.
    """
    x, y, query = (np.float64(a) for a in (x, y, query))
    prediction, left = 0.0, y.copy()
    for _ in range(steps):
        step = rate / len(x) * left @ x  # Minus the slope of the weights.
        prediction += step @ query
        left = left - x @ step
        moments = x.T @ x
        x, query = (a - curvature * a @ moments for a in (x, query))
    return prediction


@pytest.mark.parametrize("curvature", [0.0, 0.05])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_constructed_layers_do_gradient_descent(steps, curvature, getkey):
    x, y = (jax.random.normal(getkey(), shape) / 2 for shape in ((8, 10, 5), (8, 10)))
    query = jax.random.normal(getkey(), (8, 5))
    block = descent_block(5, 10, 1.5, curvature=curvature)
    every = (descent_model([block], steps), descent_model([block] * steps, steps))
    wanted = [
        descended(*example, 1.5, curvature, steps)
        for example in zip(x, y, query, strict=True)
    ]
    for model in every:
        found = predictions(model, x, y, query)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@needs_reference
@pytest.mark.parametrize("size", ["d4_n6", "d10_n10"])
def test_the_constructions_of_the_reference(size):
    for name in (f"gd_{size}_L1_eta6_w0rand", f"gdpp_{size}_L2_chosen_untied"):
        data = read(name)
        settings = json.loads(str(data["config"]))
        sizes = settings["input_size"], settings["dataset_size"]
        for k, block in enumerate(loaded(data).blocks):
            start = settings.get("W0")
            gamma, eta = settings.get("gamma_eta", [(0.0, settings.get("eta"))] * 2)[k]
            made = descent_block(
                *sizes, eta, curvature=gamma, start=start and np.array([start])
            )
            pair = jax.tree.leaves(made), jax.tree.leaves(block)
            for ours, theirs in zip(*pair, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@needs_reference
@pytest.mark.parametrize("size", ["d4_n6", "d10_n10"])
def test_gradient_descent_of_the_reference(size):
    data = read(f"gd_baseline_{size}")
    x, y, query = data["x"], data["y"][..., 0], data["x_query"]
    for e, rate in enumerate(data["etas"]):
        for s, steps in enumerate(data["steps"]):
            block = descent_block(x.shape[2], x.shape[1], float(rate))
            found = predictions(descent_model([block], int(steps)), x, y, query)
            wanted = data["prediction_zero"][e, s]
            scale = max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * scale)


@needs_reference
@pytest.mark.parametrize("size", ["d4_n6", "d10_n10"])
def test_a_layer_between_the_trained_and_the_constructed_one(size):
    data = read(f"alignment_{size}")
    settings = json.loads(str(data["config"]))
    parameters = under(data, "params/")
    trained, gd = (
        load_model({k: x for k, x in parameters.items() if root in k}, settings)
        for root in ("transformer/", "Transformer_gd/")
    )
    dim = settings["input_size"]
    block = interpolated(trained.blocks[0], gd.blocks[0], 0.5, dim=dim)
    wanted = under(data, "interpolated/multi_head_attention/")
    for name, layer in (("query", block.attn.query), ("linear", block.attn.output)):
        np.testing.assert_allclose(layer.weight.T, wanted[f"{name}/w"], atol=1e-5)
    model = eqx.tree_at(lambda m: m.blocks, trained, (block,))
    found = jax.vmap(model)(jnp.asarray(data["tokens"]))
    loss = 0.5 * np.mean((np.asarray(found) - data["target"][:, -1]) ** 2)
    np.testing.assert_allclose(loss, data["interpolated_loss"], rtol=1e-5)
    ends = [
        interpolated(trained.blocks[0], gd.blocks[0], s, dim=dim) for s in (0.0, 1.0)
    ]
    for whole, block in zip((trained, gd), ends, strict=True):
        model = eqx.tree_at(lambda m: m.blocks, whole, (block,))
        pair = (jax.vmap(m)(jnp.asarray(data["tokens"])) for m in (model, whole))
        np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5)


def test_constructions_that_cannot_be():
    with pytest.raises(ValueError, match=r"start must be \[output, 3\], got \[1, 2\]"):
        descent_block(3, 4, 1.0, start=np.zeros((1, 2)))
    block = descent_block(3, 4, 1.0)
    with pytest.raises(ValueError, match="blocks must be one block or steps=3, got 2"):
        descent_model([block] * 2, 3)
    biased = eqx.tree_at(
        lambda b: b.attn.query.bias, block, jnp.zeros(4), is_leaf=lambda x: x is None
    )
    with pytest.raises(ValueError, match="one head and no biases can be mixed"):
        interpolated(block, biased, 0.5, dim=3)
