"""The encoder against what the public code of arXiv 2603.10573 computes."""

import functools
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import opto
from icl.baselines.discrimination import kernel_regression
from icl.compat.likelihood_ratio import load_model
from icl.models.encoder import EncoderConfig
from icl.tasks.discrimination import ShiftedMean
from icl.training.freezing import trained_part
from icl.training.optimizers import AdamW, OneCycle, OneCycleMomentum


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/likelihood_ratio"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
VARIANTS = (
    *("Base", "FrozenAttention", "FrozenPos", "FrozenQK", "InterleavedEmbeddings"),
    *("NoLabels", "NoPos", "NoisyLabels", "ShuffledContext", "ShuffledLabels"),
)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@functools.cache
def read(name):
    with np.load(REFERENCE / f"{name}.npz") as data:
        return dict(data)


def under(data, prefix):
    return {k.removeprefix(prefix): v for k, v in data.items() if k.startswith(prefix)}


def loaded(data):
    parameters = under(data, "params/") or under(read("model_Base"), "params/")
    if "NoPos" in str(data["config"]):
        parameters["pos_emb"] = np.zeros_like(parameters["pos_emb"])
    return load_model(parameters, json.loads(str(data["config"])))


def inputs(data):
    """The inputs of a batch, in the order in which the model of the data saw them."""
    x, y = data["context_x"], data["context_y"].astype(np.int32)
    if "permutation" in data:
        y = y[:, data["permutation"]]
        if "ShuffledContext" in str(data["config"]):
            x = x[:, data["permutation"]]
    return jnp.asarray(x), jnp.asarray(y), jnp.asarray(data["query_x"])


# What the reference computes


@needs_reference
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_the_reference(variant):
    data = read(f"model_{variant}")
    model = loaded(data)
    logits, found = opto.run(model, *inputs(data), record="**")
    np.testing.assert_allclose(logits, data["logits"][:, 0], **TOLERANCE)
    bare = jax.vmap(model)(*inputs(data))
    np.testing.assert_allclose(bare, data["logits"][:, 0], **TOLERANCE)
    sites = {"hidden/0": "embed"}
    for i in range(2):
        sites |= {
            f"hidden/{i + 1}": f"blocks.{i}.resid_post",
            f"attention/{i}": f"blocks.{i}.attn.pattern",
            f"attention_out/{i}": f"blocks.{i}.attn.out",
            f"mid/{i}": f"blocks.{i}.resid_mid",
            f"ff_out/{i}": f"blocks.{i}.mlp.out",
        }
    there = [name for name in sites if name in data]
    assert len(there) == {"Base": 11}.get(variant, 5 if "hidden/0" in data else 0)
    for name in there:
        np.testing.assert_allclose(
            found[sites[name]], data[name], **TOLERANCE, err_msg=name
        )


@needs_reference
def test_noisy_labels_of_training():
    data = read("noisy_labels_training_mode")
    y = np.where(data["mask"], 1 - data["context_y"], data["context_y"])
    model = loaded(read("model_Base"))
    found = jax.vmap(model)(data["context_x"], y.astype(np.int32), data["query_x"])
    np.testing.assert_allclose(found, data["logits"][:, 0], **TOLERANCE)


@needs_reference
def test_heads_set_to_zero():
    wanted = read("analysis_Base")["logits_head_zeroed"]
    data = read("model_Base")
    model = loaded(data)
    for layer, head in np.ndindex(2, 2):
        edit = opto.Zero(f"blocks.{layer}.attn.z", head=head)
        found, _ = opto.run(model, *inputs(data), edits=[edit])
        np.testing.assert_allclose(found, wanted[layer, head, :, 0], **TOLERANCE)


@needs_reference
def test_kernel_regression_of_the_reference():
    x, y, query = inputs(read("model_Base"))
    scale = (16 / 2) ** -0.5
    of = functools.partial(kernel_regression, scale=scale)
    found = jax.vmap(of)(x, y, query)
    np.testing.assert_allclose(
        found, read("analysis_Base")["nadaraya_watson"], **TOLERANCE
    )


@needs_reference
def test_the_logit_lens_of_the_reference():
    data, wanted = read("model_Base"), read("analysis_Base")
    model = loaded(data)
    record = ("embed", "blocks.*.resid_post")
    _, found = opto.run(model, *inputs(data), record=record)
    read_out = lambda x: x @ model.head.weight[0] + model.head.bias[0]
    lens = [read_out(found[f"blocks.{i}.resid_post"][:, -1]) for i in range(2)]
    np.testing.assert_allclose(lens, wanted["lens"][1:, :, 0], **TOLERANCE)
    with_position = read_out(found["embed"][:, -1])
    expected = wanted["lens_input_with_position"][:, 0]
    np.testing.assert_allclose(with_position, expected, **TOLERANCE)


FREEZE = {
    "Base": (),
    "FrozenQK": ("blocks.*.attn.query", "blocks.*.attn.key"),
    "FrozenAttention": ("blocks.*.attn",),
    "FrozenPos": ("positions",),
}


@needs_reference
@pytest.mark.parametrize("variant", FREEZE)
def test_twenty_training_steps_of_the_reference(variant):
    """AdamW with a one-cycle rate and clipping; other weights than these are frozen.

    In the reference, frozen queries and keys still decay, by 6e-6 of their size.
    """
    data = read("training")
    sizes = json.loads(str(data["config"]))
    steps, batch = sizes["total_steps"], 8
    times = (steps - 1.0) * batch, (sizes["pct_start"] * steps - 1) * batch
    optimizer = AdamW(
        OneCycle(sizes["lr"], *times),
        weight_decay=sizes["weight_decay"],
        b1=OneCycleMomentum(*times),
        clip_norm=sizes["clip_grad_norm"],
    ).transform(batch)
    config = json.loads(str(read("model_Base")["config"]))
    start = load_model(under(data, "initial/"), config)
    trained, rest = trained_part(start, FREEZE[variant])

    @jax.value_and_grad
    def loss(trained, x, y, query, label):
        logits = jax.vmap(eqx.combine(trained, rest))(x, y, query)
        return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, label))

    @jax.jit
    def step(trained, state, *batch):
        value, grad = loss(trained, *batch)
        updates, state = optimizer.update(grad, state, trained)
        return optax.apply_updates(trained, updates), state, value

    state, losses = optimizer.init(trained), []
    for k in range(20):
        x, y, query = (data[k_][k] for k_ in ("context_x", "context_y", "query_x"))
        batch = x, y.astype(np.int32), query, data["query_y"][k]
        trained, state, value = step(trained, state, *map(jnp.asarray, batch))
        losses.append(float(value))
    np.testing.assert_allclose(losses, data[f"{variant}/loss"], **TOLERANCE)
    final = under(data, f"{variant}/final/")
    model = eqx.combine(trained, rest)
    if variant == "Base":
        # A bias of the keys does not change a softmax: its gradient is rounding, which
        # Adam makes large.
        without = lambda m: [block.attn.key.bias for block in m.blocks]
        same = lambda m: eqx.tree_at(without, m, replace_fn=jnp.zeros_like)
        pair = same(model), same(load_model(final, config))
        for found, expected in zip(*map(jax.tree.leaves, pair), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
    attn = model.blocks[0].attn
    found = np.concatenate(
        [layer.weight for layer in (attn.query, attn.key, attn.value)]
    )
    expected = final["transformer.layers.0.self_attn.in_proj_weight"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
    expected = final["pos_emb"][0]
    np.testing.assert_allclose(model.positions.table, expected, rtol=1e-5, atol=2e-5)


# Loading


def state_dict(d_in=3, context=5, d_model=8, layers=1, hidden=12):
    rng = np.random.default_rng(0)
    shapes = {
        "pos_emb": (1, context + 1, d_model),
        **dict(_layer("x_proj", d_in, d_model)),
        **dict(_layer("y_proj", 1, d_model)),
        **dict(_layer("query_proj", d_in, d_model)),
        **dict(_layer("head", d_model, 1)),
    }
    for k in range(layers):
        at = f"transformer.layers.{k}"
        shapes |= {
            f"{at}.self_attn.in_proj_weight": (3 * d_model, d_model),
            f"{at}.self_attn.in_proj_bias": (3 * d_model,),
            **dict(_layer(f"{at}.self_attn.out_proj", d_model, d_model)),
            **dict(_layer(f"{at}.linear1", d_model, hidden)),
            **dict(_layer(f"{at}.linear2", hidden, d_model)),
        }
        for name in ("norm1", "norm2"):
            shapes |= {f"{at}.{name}.{part}": (d_model,) for part in ("weight", "bias")}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _layer(name, fan_in, fan_out):
    return [(f"{name}.weight", (fan_out, fan_in)), (f"{name}.bias", (fan_out,))]


SIZES = {"d_in": 3, "n_ctx": 5, "d_model": 8, "n_layers": 1, "n_heads": 4}


def config(**changes):
    return {"model_class": "ICLTransformer", "model_kwargs": SIZES, **changes}


def numpy_forward(p, x, y, query, heads):
    """The model in NumPy, from the description of the reference data."""
    from scipy.special import erf, softmax

    p = {name: np.asarray(value, float) for name, value in p.items()}
    linear = lambda name, v: v @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def norm(name, v):
        v = v - v.mean(-1, keepdims=True)
        v = v / np.sqrt((v**2).mean(-1, keepdims=True) + 1e-5)
        return v * p[f"{name}.weight"] + p[f"{name}.bias"]

    context = linear("x_proj", x) + linear("y_proj", y[:, None].astype(float))
    h = np.concatenate([context, linear("query_proj", query[None])])
    h = h + p["pos_emb"][0, : len(h)]
    at = "transformer.layers.0"
    qkv = h @ p[f"{at}.self_attn.in_proj_weight"].T + p[f"{at}.self_attn.in_proj_bias"]
    q, k, v = (part.reshape(len(h), heads, -1) for part in np.split(qkv, 3, -1))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    z = np.einsum("hqk,khd->qhd", softmax(scores, -1), v).reshape(len(h), -1)
    h = norm(f"{at}.norm1", h + linear(f"{at}.self_attn.out_proj", z))
    pre = linear(f"{at}.linear1", h)
    hidden = pre * (1 + erf(pre / np.sqrt(2))) / 2
    h = norm(f"{at}.norm2", h + linear(f"{at}.linear2", hidden))
    return linear("head", h[-1:])[0, 0]


@pytest.mark.parametrize("pairs", [5, 2])
def test_other_sizes_and_shorter_contexts(pairs):
    parameters = state_dict()
    with jax.enable_x64(True):
        model = load_model(parameters, json.dumps(config()))
        rng = np.random.default_rng(1)
        x, query = rng.normal(size=(pairs, 3)), rng.normal(size=3)
        y = rng.integers(0, 2, pairs)
        found = model(jnp.asarray(x), jnp.asarray(y), jnp.asarray(query))
        wanted = numpy_forward(parameters, x, y, query, heads=4)
        assert float(found) == pytest.approx(wanted, rel=1e-5)


WRONG_CONFIGS = {
    "did you mean 'ICLTransformerNoPos'": {"model_class": "ICLTransformerNoPoss"},
    "no setting 'activatoin'; did you mean 'activation'": {"activatoin": "relu"},
    "dim_feedforward is 1, but parameters are of 12": {"dim_feedforward": 1},
    "n_ctx is 9, but .* are of 5": {"model_kwargs": {**SIZES, "n_ctx": 9}},
    "config: n_heads is 2, in model_kwargs 4": {"n_heads": 2},
    "pos_emb must be 0 in .*NoPos, got": {"model_class": "ICLTransformerNoPos"},
    "activation must be 'gelu exact', got 'relu'": {"activation": "relu"},
    "layer_norm_eps must be 1e-05, got 1e-06": {"layer_norm_eps": 1e-6},
    "does not have: y_proj": {"model_class": "ICLTransformerNoLabels"},
}
WRONG_ARRAYS = {
    "lack head.bias": lambda p: p.pop("head.bias"),
    r"shape \[1, token, d_model": lambda p: p.update(pos_emb=np.ones((2, 6, 8))),
    "model does not have: extra": lambda p: p.update(extra=np.ones(3)),
    r"head.weight must have the shape \[1, 8\], got": lambda p: p.update(
        {"head.weight": np.ones((2, 8))}
    ),
}


@pytest.mark.parametrize("message", [*WRONG_CONFIGS, *WRONG_ARRAYS])
def test_another_architecture_is_refused(message):
    parameters = state_dict()
    WRONG_ARRAYS.get(message, lambda p: None)(parameters)
    with pytest.raises(ValueError, match=message):
        load_model(parameters, config(**WRONG_CONFIGS.get(message, {})))


@needs_reference
def test_interleaved_positions_are_as_many_as_the_config_says():
    data = read("model_InterleavedEmbeddings")
    settings = json.loads(str(data["config"]))
    settings["model_kwargs"]["max_len"] = 13
    with pytest.raises(ValueError, match="max_len is 13, but parameters are of 15"):
        load_model(under(data, "params/"), settings)


# The encoder


def test_attention_goes_both_ways_but_labels_do_not_reach_the_query_token():
    task = ShiftedMean(3, 5)
    model = EncoderConfig(d_model=16, num_heads=2).build(
        task.interface, key=jax.random.key(0)
    )
    example = task.sample(key=jax.random.key(1))
    _, found = opto.run(model, *task.inputs(example), record="blocks.0.attn.pattern")
    assert (found["blocks.0.attn.pattern"] > 0).all()
    # The query's own label is no input at all.
    assert len(task.inputs(example)) == 3


def test_a_context_longer_than_the_positions_is_refused():
    interface = ShiftedMean(3, 200).interface
    with pytest.raises(ValueError, match="max_length must be at least 201 .* got 129"):
        EncoderConfig().build(interface, key=jax.random.key(0))
