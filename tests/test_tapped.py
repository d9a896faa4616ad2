"""`opto.tapped`: sites in models that were written without taps."""

from typing import Any

import equinox as eqx
import foreign
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import EDITS

import opto


MODELS = ("encoder", "stack", "state", "mixer", "recurrent")
each_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def models():
    return foreign.models()


def opened(models, name, names=None):
    model, inputs, axes = models[name]
    return opto.tapped(model, names, input_axes=axes), inputs


def plain(models, name):
    """The outputs of the model as its author calls it, example by example."""
    model, inputs, axes = models[name]
    inputs = jax.tree.map(lambda x: x, inputs)  # A state is used once.
    return eqx.filter_vmap(model)(*inputs) if axes else model(*inputs)


def arrays(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree) if eqx.is_array(x)]


def same(ours, theirs, atol=2e-6):
    for one, other in zip(arrays(ours), arrays(theirs), strict=True):
        np.testing.assert_allclose(one, other, atol=atol)


@each_model
def test_recording_everything_changes_nothing(name, models):
    model, inputs = opened(models, name)
    outputs, record = opto.run(model, *inputs, record="**")
    same(outputs, plain(models, name))
    assert list(record) == list(opto.sites(model, *inputs))
    assert not opto.sites(model, *inputs).unread - {"minus", "plus"}


@each_model
def test_without_a_request_it_is_the_model(name, models):
    model, inputs = opened(models, name)
    example = [x[0] if models[name][2] else x for x in inputs]
    compiled: Any = eqx.filter_jit
    text = lambda fn: compiled(fn).lower(*example).as_text()
    assert text(lambda *inputs: model(*inputs)) == text(
        lambda *inputs: models[name][0](*inputs)
    )
    same(model, models[name][0], atol=0)


SUBMODULES = {
    "encoder": "embed layers[0].attention layers[1].mlp layers[0].norm2 norm",
    "stack": "layers.attention layers.mlp layers.norm1 layers.mlp.layers[0]",
    "mixer": "patches channels norm channels.layers[1]",
    "recurrent": "plus minus cell",
    "state": "linear",
}


@pytest.mark.parametrize(
    ("name", "place"),
    [(n, place) for n, ps in SUBMODULES.items() for place in ps.split()],
)
def test_zero_is_a_submodule_that_returns_zero(name, place, models):
    model, inputs = opened(models, name)
    where = lambda tree: eval(f"tree.{place}")
    silent = eqx.tree_at(where, models[name][0], replace_fn=foreign.Silent)
    path = place.replace("[", ".").replace("]", "")
    known = opto.sites(model, *inputs)
    sites = {path, f"{path}.out", f"{path}.0", f"{path}.1"} & set(known)
    outputs, _ = opto.run(model, *inputs, edits=[opto.Zero(x) for x in sorted(sites)])
    same(outputs, plain({name: (silent, *models[name][1:])}, name))


def test_an_edit_within_a_scan_is_of_one_layer(models):
    """Beside the same layers, called one after the other."""
    model, (x,) = opened(models, "stack")
    edits = [
        opto.Zero("layers.attention.z", layer=1, head=0),
        opto.Scale("layers.mlp", 2.0, layer=2),
    ]
    _, source = opto.run(model, x[::-1], record="layers.norm1.out")
    edits += [opto.Patch("layers.norm1.out", source, layer=0)]
    out, record = opto.run(model, x, record="**", edits=edits)

    stack = models["stack"][0]
    for i in range(3):
        layer = opto.tapped(stack.layer(i), input_axes=("seq d_model",))
        here = [
            [opto.Patch("norm1.out", {"norm1.out": source["layers.norm1.out"][:, 0]})]
        ]
        here += [[opto.Zero("attention.z", head=0)], [opto.Scale("mlp", 2.0)]]
        x, found = opto.run(layer, x, record="**", edits=here[i])
        for site in found:
            same(record[f"layers.{site}"][:, i], found[site])
    same(out, x)
    table = opto.sites(model, x)
    assert table["layers.mlp"].axes == ("layer", "axis_0", "axis_1")
    assert table["layers.attention.z"].axes == ("layer", "head", "seq", "d_head")
    counts = [effect.entries for effect in opto.effects(model, x, edits=edits[:2])]
    assert counts == [2 * 5 * 4, 2 * 5 * 8]


def test_steps_branches_and_repeats(models):
    model, (xs,) = opened(models, "recurrent")
    _, record = opto.run(model, xs, record="**")
    assert opto.sites(model, xs)["cell"].axes == ("step", "axis_0")
    cell, h = models["recurrent"][0].cell, jnp.zeros((4, 3))
    for i in range(6):
        h = jax.vmap(cell)(xs[:, i], h)
        same(record["cell"][:, i], h)
    positive = np.asarray(xs[:, 0, 0] > 0)
    assert 0 < positive.sum() < 4
    # Under the batch's vmap both branches are computed; alone, only one is.
    for x, plus in zip(xs, positive, strict=True):
        _, record = opto.run(model, x, record=["plus", "minus"])
        assert np.isnan(record["plus"]).all() == (not plus)
        assert np.isnan(record["minus"]).all() == plus

    model, inputs = opened(models, "state")
    assert list(opto.sites(model, *inputs)) == [
        "linear.0",
        "relu.0",
        "linear.1",
        "relu.1",
    ]
    (out, state), record = opto.run(model, *inputs, edits=[opto.Zero("relu.0")])
    bare = models["state"][0]
    same(out, jax.nn.relu(bare.linear.bias))
    assert state.get(bare.count) == 1


def test_gradients_pass_through_marked_values(models):
    model, (x,) = opened(models, "stack")
    scale = opto.Scale("layers.mlp", 0.5, layer=1)
    loss = lambda model, edits: opto.visit(model, x[0], edits=edits)[0].sum()
    found = eqx.filter_grad(loss)(model, [scale])
    half = lambda mlp: eqx.tree_at(
        lambda m: (m.layers[-1].weight, m.layers[-1].bias),
        mlp,
        replace_fn=lambda w: w.at[1].multiply(0.5),
    )
    bare = models["stack"][0]
    halved = lambda m: eqx.tree_at(lambda m: m.layers.mlp, m, replace_fn=half)(x[0])
    wanted = eqx.filter_grad(lambda m: halved(m).sum())(bare)
    same(found, wanted, atol=1e-5)


@pytest.mark.parametrize("mask", [None, "causal", "by head"])
def test_attention_of_equinox(mask, getkey):
    """Rotary heads, keys of another length and width, all biases, dropout off."""
    attention = eqx.nn.MultiheadAttention(
        2, 6, 5, 3, 7, 4, 3, *[True] * 4, dropout_p=0.5, inference=True, key=getkey()
    )
    shapes = ((6, 6), (6, 5), (6, 3)) if mask != "by head" else ((4, 6), (6, 5), (6, 3))
    given = [jax.random.normal(getkey(), shape) for shape in shapes]
    seen = {"causal": jnp.tri(6, dtype=bool)}.get(mask)
    if mask == "by head":
        seen = jnp.stack([jnp.tri(4, 6, 2, bool), jnp.ones((4, 6), bool)])
    rotary = jax.vmap(eqx.nn.RotaryPositionalEmbedding(4), in_axes=1, out_axes=1)
    turned = None if mask == "by head" else lambda q, k, v: (rotary(q), rotary(k), v)
    model = opto.tapped(attention, {"": "attn.out[seq d_model]"})
    called = lambda q, k, v, tap=opto.identity: model(
        q, k, v, tap=tap, mask=seen, process_heads=turned
    )
    out, record = opto.visit(called, *given, record="**")
    bare = attention(*given, mask=seen, process_heads=turned)
    same(out, bare)
    assert list(record)[:7] == [
        f"attn.{x}" for x in ("q", "k", "v", "scores", "pattern", "z", "result")
    ]
    values = {name.removeprefix("attn."): np.float64(x) for name, x in record.items()}
    scores = np.einsum("hsd,htd->hst", values["q"], values["k"]) / 2
    allowed = (
        np.ones_like(scores, bool)
        if seen is None
        else np.broadcast_to(seen, scores.shape)
    )
    np.testing.assert_allclose(
        np.where(allowed, values["scores"], 0), np.where(allowed, scores, 0), atol=1e-5
    )
    weights = np.where(allowed, np.exp(scores), 0)
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(values["pattern"], weights, atol=1e-6)
    np.testing.assert_allclose(values["z"], weights @ values["v"], atol=1e-5)
    summed = values["result"].sum(0) + np.asarray(attention.output_proj.bias)
    np.testing.assert_allclose(out, summed, atol=1e-5)


def test_names_and_the_scale_of_norms(models):
    model, inputs = opened(models, "encoder", foreign.NAMES)
    table = opto.sites(model, *inputs)
    assert table["blocks.1.attn.scale"].axes == ("seq",)
    _, record = opto.run(model, *inputs, record="**")
    stream = np.float64(record["blocks.1.resid_pre"])
    scale = np.sqrt(stream.var(-1) + 1e-5)
    np.testing.assert_allclose(record["blocks.1.attn.scale"], scale, rtol=1e-5)
    normed = (stream - stream.mean(-1, keepdims=True)) / scale[..., None]
    np.testing.assert_allclose(record["blocks.1.attn.in"], normed, atol=1e-5)
    # Held at the scale of another run, the norm is linear.
    edits = [opto.Freeze("blocks.0.attn.scale"), opto.Scale("embed", 2.0)]
    _, twice = opto.run(model, *inputs, record="blocks.0.attn.in", edits=edits)
    same(twice["blocks.0.attn.in"], 2 * record["blocks.0.attn.in"], atol=1e-5)


Z, PATTERN = "blocks.*.attn.z", "blocks.*.attn.pattern"
of_output = lambda logits: logits[-1, 0]
VERBS = {
    "freeze": lambda m, r: [opto.Freeze(PATTERN), opto.Zero(Z, heads="0:1")],
    "previous": lambda m, r: [opto.attention.Pattern(opto.attention.PreviousToken())],
    "block": lambda m, r: [opto.attention.Block(distance=1, strength=0.5)],
    "resample": lambda m, r: [opto.Resample(Z, r, heads="0:0 1:1")],
    "mean": lambda m, r: [opto.Mean("blocks.*.mlp.out", r)],
    "path": lambda m, r: [
        opto.patching.PathPatch(
            opto.At("blocks.0.attn.z", head=1),
            opto.At("blocks.1.attn.k", head=0),
            {Z: r["blocks.0.attn.z"][1], "blocks.0.attn.z": r["blocks.0.attn.z"][1]},
        )
    ],
    "graft": lambda m, r: [
        opto.Graft(
            jax.tree.map(lambda x: 1.1 * x if eqx.is_inexact_array(x) else x, m),
            until=0,
        )
    ],
}


@pytest.fixture(scope="module")
def twins():
    """The same encoder, opened and with taps that are written by hand."""
    bare, inputs, _ = foreign.models()["encoder"]
    return *foreign.twins(bare), *inputs


@pytest.mark.parametrize("name", [*EDITS, *VERBS])
def test_manipulations_beside_a_model_with_taps(name, twins):
    *models, ids = twins
    shared = [site for site in opto.sites(models[1], ids[0])]
    found = []
    for model in models:
        _, record = opto.run(model, jnp.roll(ids, 1, 1), record=shared)
        if name in VERBS:
            edits = VERBS[name](model, record)
        else:
            sites = (opto.sites(model, ids)[x] for x in ("blocks.0.attn.z", "logits"))
            edits = [EDITS[name].make(site, strength=0.75) for site in sites]
        found.append(opto.run(model, ids, record=shared, edits=edits))
    same(*found, atol=1e-5)


def test_sweeps_and_gradients_beside_a_model_with_taps(twins):
    *models, ids = twins
    found = []
    for model in models:
        metric = lambda logits, ids: logits[..., -1, 0].sum()
        swept = opto.sweep(metric, model, ids, edits=opto.Zero(Z).each("head"))
        each = opto.Zero(Z).each("layer", "head")
        slope = opto.strength_grad(metric, model, ids, edits=each)
        found.append((swept, slope))
    same(*found, atol=1e-5)


def test_a_path_through_a_frozen_norm_is_linear(twins):
    """In NumPy: W_K diag(g) (I - 1/d) W_O (z' - z) / scale."""
    model, _, ids = twins
    names = ["blocks.0.attn.z", "blocks.1.attn.k", "blocks.1.attn.scale"]
    _, before = opto.run(model, ids, record=names)
    _, source = opto.run(model, jnp.roll(ids, 1, 1), record=names)
    path = opto.patching.PathPatch(
        opto.At("blocks.0.attn.z", head=1),
        opto.At("blocks.1.attn.k", head=0),
        source,
        frozen=("**.z", "**.mlp.out", "**.scale"),
    )
    _, after = opto.run(model, ids, record=names, edits=[path])
    first, second = model.model.layers
    written = np.float64(source[names[0]] - before[names[0]])[:, 1]
    written = written @ np.asarray(first.attention.output_proj.weight)[:, 4:].T
    centred = written - written.mean(-1, keepdims=True)
    read = centred * np.asarray(second.norm1.weight) / before[names[2]][..., None]
    expected = read @ np.asarray(second.attention.key_proj.weight)[:4].T
    np.testing.assert_allclose(
        after[names[1]][:, 0] - before[names[1]][:, 0], expected, atol=1e-5
    )
    assert np.array_equal(after[names[1]][:, 1], before[names[1]][:, 1])


class Looping(eqx.Module):
    linear: eqx.nn.Linear
    unused: eqx.nn.Linear

    def __call__(self, x):
        return jax.lax.while_loop(
            lambda x: x[0] < 1, lambda x: x + self.linear(x) ** 2, x
        )


class Inner(eqx.Module):
    """Its output is a derivative of its own submodule."""

    linear: eqx.nn.Linear

    def __call__(self, x):
        return jax.grad(lambda x: jnp.tanh(self.linear(x)).sum())(x)


@jax.custom_vjp
def rounded(linear, x):
    return jnp.round(linear(x))


rounded.defvjp(
    lambda linear, x: (rounded(linear, x), (linear, x)),
    lambda kept, g: (jax.tree.map(jnp.zeros_like, kept[0]), kept[0].weight.T @ g),
)


class Rounding(eqx.Module):
    """Rounds with the gradient of not rounding."""

    linear: eqx.nn.Linear

    def __call__(self, x):
        return rounded(self.linear, x).sum()


def test_a_derivative_of_the_models_own_is_kept_or_refused():
    model = opto.tapped(Rounding(looping().linear), {"linear": "linear"})
    x = jnp.ones(2)
    wanted = model.model.linear.weight.sum(0)
    grad = lambda **asked: jax.grad(lambda x: opto.run(model, x, **asked)[0])(x)
    np.testing.assert_allclose(grad(), wanted, rtol=1e-6)
    found = opto.run(model, x, record="linear")[1]["linear"]
    np.testing.assert_allclose(found, model.model.linear(x), rtol=1e-6)
    with pytest.raises(ValueError, match="'linear' is computed within a function"):
        grad(record="linear")


class Doubling(opto.Tap):
    def __call__(self, name, value, axes, *, rows=None):
        return 2 * value

    def scope(self, name):
        return self

    def wants(self, *names):
        return True


def test_a_tap_of_the_users_own():
    linear = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    mlp = opto.tapped(eqx.nn.Sequential([linear, linear]))
    twice = 2 * linear(2 * linear(jnp.ones(2)))
    np.testing.assert_allclose(mlp(jnp.ones(2), tap=Doubling()), twice, rtol=1e-6)


def looping():
    linear = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    return Looping(linear, linear)


TOKENS = np.zeros(5, int)
REFUSED = {
    r"no submodule 'layers.\*.mpl'; did you mean 'layers.\d.mlp'": lambda model: (
        opto.tapped(model, {"layers.*.mpl": "x.*"})
    ),
    r"as many stars; 'layers.\*' has 1 and 'block' has 0": lambda model: opto.tapped(
        model, {"layers.*": "block"}
    ),
    "'embed' and 'head' have the same site 'x'": lambda model: opto.tapped(
        model, {"embed": "x", "head": "x"}
    ),
    "'head' has 'outputs'; wanted 'input' or 'output'": lambda model: opto.tapped(
        model, {"head": {"outputs": "x"}}
    ),
    "the name of a site, as 'mlp.out' .* got 'x]'": lambda model: opto.tapped(
        model, {"head": "x]"}
    ),
    "model must be a callable eqx.Module, got StateIndex": lambda model: opto.tapped(
        eqx.nn.StateIndex(0)
    ),
    "the value of 'linear' is computed within a 'while'": lambda model: opto.sites(
        opto.tapped(looping(), {"linear": "linear"}), jnp.zeros(2)
    ),
    "the model differentiates through 'linear' itself": lambda model: opto.run(
        opto.tapped(Inner(looping().linear), {"linear": "linear"}),
        jnp.ones(2),
        record="linear",
    ),
    "the model does not call the submodules 'unused'": lambda model: opto.sites(
        opto.tapped(looping(), {"unused": "unused"}), jnp.zeros(2)
    ),
    "'logits' has the axes 'seq dim label', but a value with 2": lambda model: (
        opto.sites(opto.tapped(model, {"head": "logits[seq dim label]"}), TOKENS)
    ),
    "Tapped takes tap= itself": lambda model: opto.tapped(opto.tapped(model)),
    r"names is a mapping from paths .* got \['embed'\]": lambda model: opto.tapped(
        model, ["embed"]
    ),
    "must take tap=, got Encoder; `opto.tapped": lambda model: opto.run(model, TOKENS),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message, models):
    with pytest.raises(ValueError, match=message):
        REFUSED[message](models["encoder"][0])
