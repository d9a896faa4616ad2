"""Strength gradients, patching and circuit discovery, against brute force."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from planted import CIRCUIT, induction_model, logit_difference, sequences
from tapped import Count, Counted, MODELS

import opto
from icl.edits import Match, PerfectPreviousToken
from icl.models import exemplar_label_interface, NoPositions, TransformerConfig
from opto import _gates, At, Clamp, Patch, Scale, Steer, Zero
from opto.attention import Pattern, PreviousToken


@functools.cache
def small(layers=3, **settings):
    usual = {"num_layers": layers, "d_model": 8, "num_heads": 2, "mlp_ratio": 1.0}
    config = TransformerConfig(**usual | settings)
    # Compiled, because initialisation otherwise takes seconds. In single precision,
    # whichever test asks first.
    with jax.enable_x64(False):
        return eqx.filter_jit(config.build)(
            exemplar_label_interface(3, dim=4), key=jax.random.key(1)
        )


def inputs(seed, batch=(), pairs=2):
    rng = np.random.default_rng(seed)
    labels = np.broadcast_to([0, 1, 0], (*batch, 3)) if pairs == 2 else None
    examples = rng.normal(size=(*batch, pairs + 1, 4))
    return jnp.asarray(examples, float), jnp.asarray(labels)


def score(out, examples, labels):
    """A score that is not linear in the logits."""
    return jnp.mean(jnp.tanh(out[..., -1, 0]) + out[..., -1, 1] ** 2)


# Strength gradients.

SWEPT = {
    "heads": lambda **s: Zero("blocks.*.attn.z", **s).each("layer", "head"),
    "units": lambda **s: Clamp("blocks.1.mlp.post", 0.5, pos=[0, -1], **s).each(
        "pos", "unit"
    ),
    "steer": lambda **s: Steer(
        "blocks.*.resid_pre", jnp.arange(8.0) / 20, axes="d_model", **s
    ).each("layer"),
    "scale": lambda **s: Scale("blocks.*.attn.scores", 2.0, pos=-1, **s).each(
        "layer", "head"
    ),
    "pattern": lambda **s: Pattern(PreviousToken(), **s).each("layer", "head"),
    "stack": lambda **s: opto.stack(
        [Zero("blocks.0.attn.z", head=0, **s), Clamp("blocks.1.mlp.out", 1.0, **s)]
    ),
    "values": lambda **s: opto.stack(
        [Clamp("blocks.0.mlp.out", value, **s) for value in (0.0, 1.0)]
    ),
}


@pytest.mark.parametrize("name", SWEPT)
def test_strength_gradient_equals_central_differences(name):
    with jax.enable_x64(True):
        model, example = double(small(2)), inputs(0)
        fixed = Zero("blocks.0.attn.z", head=1, strength=0.3)
        sweep = lambda swept: opto.sweep(score, model, *example, edits=[fixed, swept])
        edits = [fixed, SWEPT[name]()]
        ours = opto.strength_grad(score, model, *example, edits=edits)
        step = 1e-5
        up, down = (sweep(SWEPT[name](strength=s)) for s in (step, -step))
        assert ours.shape == up.shape
        assert np.any(np.abs(ours) > 1e-4)
        np.testing.assert_allclose(ours, (up - down) / (2 * step), atol=1e-6)


def double(model):
    as_double = lambda x: x.astype(float) if eqx.is_inexact_array(x) else x
    return jax.tree.map(as_double, model)


def test_strength_gradient_is_one_trace_and_nan_where_there_is_no_head():
    model, example = MODELS["ragged"]()
    count = Count()
    edits = Zero("layers.*.z").each("layer", "head")
    metric = lambda out, *_: jnp.sum(out**2)
    counted = Counted(model, count)
    ours = opto.strength_grad(metric, counted, *example, edits=edits)
    traces = len(count)
    assert np.isnan(ours).tolist() == [[False, False, True], [False] * 3]
    opto.strength_grad(metric, counted, example[0] + 1, edits=edits)
    assert len(count) == traces
    with pytest.raises(ValueError, match="the metric must be one number, got"):
        opto.strength_grad(lambda out, *_: out, model, *example, edits=edits)
    with pytest.raises(ValueError, match="takes one swept edit, got 2"):
        opto.strength_grad(metric, model, *example, edits=[edits, edits])


# Activation patching.


@pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")
def test_activation_patching_equals_a_loop():
    """Both inputs may have one label at a position; a patch there changes nothing."""
    model, own, other = small(2), inputs(0, (3,)), inputs(1, (3,))
    at = At("blocks.*.resid_pre").each("layer", "pos")
    ours = opto.patching.activation_patch(score, model, own, other, at=at)
    _, record = opto.run(model, *other, record="blocks.*.resid_pre")
    for layer, pos in np.ndindex(2, 5):
        edits = [Patch(f"blocks.{layer}.resid_pre", record, pos=pos)]
        out, _ = opto.run(model, *own, edits=edits)
        np.testing.assert_allclose(ours[layer, pos], score(out, *own), atol=1e-5)
    # The whole stream decides the rest of the run.
    whole = opto.run(model, *own, edits=[Patch("blocks.0.resid_pre", record)])[0]
    np.testing.assert_allclose(whole, model_out(model, other), atol=1e-5)


def model_out(model, example):
    return opto.run(model, *example)[0]


# Path patching.


def brute_force(model, own, other, sender, reads):
    """Each head's `reads` ("q", "k" or "v") in layer 2, by hand.

    Takes the clean stream at layer 2 and exchanges what one head of layer 0 writes.
    """
    layer, head = sender
    sites = [f"blocks.{layer}.attn.result", "blocks.2.resid_pre"]
    _, mine = opto.run(model, *own, record=sites)
    _, theirs = opto.run(model, *other, record=sites)
    change = theirs[sites[0]][head] - mine[sites[0]][head]
    stream = np.asarray(mine[sites[1]] + change, np.float64)
    block = model.blocks[2]
    norm = (stream - stream.mean(-1, keepdims=True)) / np.sqrt(
        stream.var(-1, keepdims=True) + 1e-5
    )
    weight = {"q": block.attn.query, "k": block.attn.key, "v": block.attn.value}
    made = norm @ np.asarray(weight[reads].weight, np.float64).T
    return made.reshape(5, 2, 4).swapaxes(0, 1)


@pytest.mark.parametrize(("reads", "layer"), [("q", 0), ("k", 1), ("v", 0)])
def test_path_patching_equals_brute_force(reads, layer):
    model = small(positions=NoPositions())
    own, other = inputs(0), inputs(1)
    value = {"metric": score, "model": model, "inputs": own, "source": other}
    senders = At(f"blocks.{layer}.attn.z").each("head")
    receivers = At(f"blocks.2.attn.{reads}").each("head")
    ours = opto.patching.path_patch(**value, senders=senders, receivers=receivers)
    for sender in range(2):
        made = brute_force(model, own, other, (layer, sender), reads)
        for receiver in range(2):
            site = f"blocks.2.attn.{reads}"
            edit = Clamp(site, jnp.asarray(made, jnp.float32), head=receiver)
            out, _ = opto.run(model, *own, edits=[edit])
            expected = score(out, *own)
            np.testing.assert_allclose(ours[sender, receiver], expected, atol=1e-5)
    # Patching the whole sender gives something else.
    patched = opto.patching.activation_patch(score, model, own, other, at=senders)
    assert np.all(np.abs(patched[:, None] - ours) > 1e-4)


def test_path_to_the_output_skips_what_is_in_between():
    model, own, other = small(), inputs(0), inputs(1)
    _, mine = opto.run(model, *own, record=["**.z", "**.mlp.out"])
    _, theirs = opto.run(model, *other, record="blocks.0.attn.z")
    site = "blocks.0.attn.z"
    held = [Patch(name, mine) for name in mine if name != site]
    held += [Patch(site, theirs, head=1)]
    expected = opto.run(model, *own, edits=held)[0][-1]
    edit = opto.patching.PathPatch(At(site, head=1), At("logits"), theirs)
    ours = opto.run(model, *own, edits=[edit])[0][-1]
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_path_patch_of_a_batch_equals_its_examples_and_own_values_change_nothing():
    model, own, other = small(), inputs(0, (2,)), inputs(1, (2,))
    ends = At("blocks.*.attn.z", head=0), At("blocks.2.attn.k")
    _, record = opto.run(model, *other, record="blocks.*.attn.z")
    ours, _ = opto.run(model, *own, edits=[opto.patching.PathPatch(*ends, record)])
    for i in range(2):
        _, single = opto.run(model, *(x[i] for x in other), record="blocks.*.attn.z")
        edit = opto.patching.PathPatch(*ends, single)
        one, _ = opto.run(model, *(x[i] for x in own), edits=[edit])
        np.testing.assert_allclose(ours[i], one, atol=1e-5)
    _, same = opto.run(model, *own, record="blocks.*.attn.z")
    with pytest.warns(opto.NoEffectWarning, match=r"PathPatch\("):
        kept, _ = opto.run(model, *own, edits=[opto.patching.PathPatch(*ends, same)])
    np.testing.assert_allclose(kept, model_out(model, own), atol=1e-5)


# Attribution.


def test_attribution_is_the_gradient_times_the_difference():
    with jax.enable_x64(True):
        model, own, other = double(small()), inputs(0, (3,)), inputs(1, (3,))
        sites = ["embed", "blocks.*.attn.z", "blocks.1.mlp.post"]
        ours = opto.attribution.attribution_patch(score, model, own, other, sites=sites)
        _, mine = opto.run(model, *own, record=sites)
        _, theirs = opto.run(model, *other, record=sites)
        for name in mine:
            assert ours.axes_of(name) == mine.axes_of(name)
            # Central differences: some entries, moved towards the source.
            change = theirs[name] - mine[name]
            way = change * np.random.default_rng(0).integers(0, 2, change.shape)

            def at(shift, name=name, way=way):
                edits = [Patch(name, {name: mine[name] + shift * way})]
                return score(opto.run(model, *own, edits=edits)[0], *own)

            slope = (at(1e-4) - at(-1e-4)) / 2e-4
            expected = jnp.sum(jnp.where(way != 0, ours[name], 0))
            np.testing.assert_allclose(expected, slope, rtol=1e-5, atol=1e-7)


def test_integrated_attribution_is_complete():
    model, own, other = small(), inputs(0), inputs(1)
    _, record = opto.run(model, *other, record="embed")
    out, _ = opto.run(model, *own, edits=[Patch("embed", record)])
    change = score(out, *own) - score(model_out(model, own), *own)
    attribute = functools.partial(
        opto.attribution.integrated_attribution, score, model, own, other, sites="embed"
    )
    sums = [jnp.sum(attribute(steps=steps)["embed"]) for steps in (1, 64)]
    assert abs(sums[1] - change) < 2e-3 < abs(sums[0] - change)
    plain = opto.attribution.attribution_patch(score, model, own, other, sites="embed")
    assert abs(jnp.sum(plain["embed"]) - change) > 2e-3
    with pytest.raises(ValueError, match="steps is a positive number, got 0"):
        attribute(steps=0)


# Circuit discovery.


@functools.cache
def planted():
    model = induction_model()
    return model, sequences(0, 32), sequences(1, 32)


@functools.cache
def discovered():
    model, own, other = planted()
    return opto.discovery.find_circuit(
        logit_difference, model, own, other, threshold=0.05
    )


def test_discovery_finds_the_planted_circuit():
    model, own, other = planted()
    out = model_out(model, own)
    assert np.all(np.argmax(out[:, -1], -1) == own[1][:, -1])
    found = discovered()
    assert found.pairs() == CIRCUIT
    assert found.total == 2 * 3 + 2 * 3 * 3 + 5
    np.testing.assert_allclose(found.whole, logit_difference(out, *own), rtol=1e-5)
    none = logit_difference(model_out(model, other), *own)
    np.testing.assert_allclose(found.none, none, rtol=1e-4)
    assert found.faithfulness > 0.99
    assert found.completeness > 0.99
    assert found.nodes == ("embed", "0:0", "1:0", "final")
    assert "5 of 29 edges" in str(found)
    (axes,) = found.figure().axes
    assert sorted(t.get_text() for t in axes.texts) == sorted([""] * 5 + [*found.nodes])
    assert axes.get_legend().get_title().get_text() == "read by"


def test_discovery_with_few_candidates_and_with_integrated_scores():
    model, own, other = planted()
    few = opto.discovery.find_circuit(
        logit_difference, model, own, other, threshold=0.05, keep=6, steps=8
    )
    assert few.pairs() == CIRCUIT
    # Averaged gradients of all cuts together add up to the effect of all cuts.
    whole = opto.discovery.find_circuit(
        logit_difference, model, own, other, threshold=1e-9, steps=64
    )
    scores = sum(edge.score for edge in whole.edges)
    assert abs(scores - (whole.none - whole.whole)) < 0.2


@pytest.mark.parametrize("gates", ["edges", "writers"])
def test_learnt_gates_find_the_planted_circuit(gates):
    """`embed` and both planted heads, and of these the five edges."""
    found = opto.discovery.learn_circuit(
        logit_difference, *planted(), penalty=0.05, gates=gates, steps=300
    )
    expected = discovered()
    if gates == "edges":
        assert found.pairs() == CIRCUIT
        assert (found.alone, found.without) == (expected.alone, expected.without)
    else:
        writers = {str(edge.writer) for edge in found.edges}
        assert writers == {writer for writer, _ in CIRCUIT}
    assert (found.whole, found.none) == (expected.whole, expected.none)
    assert found.faithfulness > 0.99
    assert min(edge.score for edge in found.edges) > 0.9


def test_gates_have_the_published_distribution():
    """Louizos et al. 2018: the share that is quite shut, and the density between."""
    logits = np.array([-2.0, 0.3, 3.0])
    many = jnp.repeat(jnp.asarray(logits, jnp.float32)[:, None], 200_000, 1).ravel()
    drawn = np.asarray(_gates.draw(many, jax.random.key(0))).reshape(3, -1)

    def below(x):
        """The distribution of the stretched variable, equations 24 and 25."""
        share = (x + 0.1) / 1.2
        odds = np.log(share) - np.log(1 - share)
        return scipy.special.expit(odds * 2 / 3 - logits)

    opened = _gates.open_probability(jnp.asarray(logits, jnp.float32))
    np.testing.assert_allclose(opened, 1 - below(0), rtol=1e-5)
    for at in (0, 0.2, 0.9):
        np.testing.assert_allclose((drawn <= at).mean(1), below(at), atol=4e-3)
    np.testing.assert_allclose((drawn == 1).mean(1), 1 - below(1), atol=4e-3)
    ends = _gates.likely(jnp.array([-4.0, 0.0, 4.0]))
    np.testing.assert_allclose(ends, [0, 0.5, 1], atol=1e-6)


def test_scores_are_the_slopes_of_cuts():
    """For edges into the output, which is linear in what is written there."""
    model, own, other = planted()
    found = discovered()
    score = {str(e.writer): e.score for e in found.edges if str(e.reader) == "final"}
    site = "blocks.1.attn.z"
    _, record = opto.run(model, *other, record=site)
    out, _ = opto.run(model, *own, edits=[Patch(site, record, head=0)])
    change = logit_difference(out, *own) - found.whole
    np.testing.assert_allclose(score["1:0"], change, atol=1e-3)


def test_discovery_in_a_model_of_another_kind():
    """Works with any module that names what is written and read.

    Two layers of units; each unit reads everything that the layer before wrote. One
    path makes the answer: from the first layer's second block of units to the second
    layer's block.
    """

    class Layers(eqx.Module):
        weights: tuple[jax.Array, ...]

        input_axes = ("unit",)

        def __call__(self, x, *, tap=opto.identity):
            x = tap.scope("input")("out", x, "unit")
            for i, weight in enumerate(self.weights):
                here = tap.scope(f"layers.{i}")
                x = x + here("out", jnp.tanh(weight @ here("in", x, "unit")), "unit")
            return tap.scope("answer")("in", x, "unit")

    first = jnp.zeros((3, 3)).at[1, 0].set(1.0)
    second = jnp.zeros((3, 3)).at[2, 1].set(1.0)
    own, other = jnp.array([[1.0, 0, 0]] * 4), jnp.zeros((4, 3))
    find = functools.partial(
        opto.discovery.find_circuit,
        lambda out, x: out[:, 2].mean(),
        Layers((first, second)),
        [own],
        [other],
        threshold=1e-3,
    )
    readers = ["layers.*.in", "answer.in"]
    found = find(writers=["**.out"], readers=readers)
    assert found.total == 1 + 2 + 3
    assert found.pairs() == {
        ("input", "layers.0"),
        ("layers.0", "layers.1"),
        ("layers.1", "answer"),
    }
    assert found.nodes == ("input", "layers.0", "layers.1", "answer")
    np.testing.assert_allclose(found.whole, np.tanh(np.tanh(1.0)), rtol=1e-6)
    assert found.none == 0
    assert found.faithfulness == 1
    assert len(found.figure().axes[0].texts) == 3 + 4
    # No component writes what the first layer reads.
    found = find(writers=["layers.*.out"], readers=readers)
    assert found.pairs() == {("layers.0", "layers.1"), ("layers.1", "answer")}
    with pytest.raises(ValueError, match="no reader comes after a writer"):
        find(writers=["layers.1.out"], readers=["layers.0.in"])


def test_discovery_names_shared_keys_and_values():
    model = small(1, num_kv_heads=1)
    found = opto.discovery.find_circuit(
        score, model, inputs(0), inputs(1), threshold=1e-9
    )
    assert found.total == (2 + 1 + 1) + 3 + 4
    readers = {str(edge.reader) for edge in found.edges}
    assert {"0:0.q", "0:1.q", "0:kv0.k", "0:kv0.v"} <= readers
    assert {"0:0", "0:1", "0:kv0"} <= {*found.nodes}
    found.figure()


# Bad input.


def path(senders, receivers, **settings):
    ends = {"senders": At(senders), "receivers": At(receivers), **settings}
    return lambda m, x: opto.patching.path_patch(score, m, x, x, **ends)


def found(metric=score, **settings):
    return lambda m, x: opto.discovery.find_circuit(
        metric, m, x, x, **{"threshold": 1.0, **settings}
    )


def integrated(**settings):
    return lambda m, x: opto.attribution.integrated_attribution(
        score, m, x, x, **settings
    )


MISTAKES = {
    "penalty must be positive, got 0": lambda m, x: opto.discovery.learn_circuit(
        score, m, x, x, penalty=0
    ),
    "gates is 'edges' or 'writers', got 'heads'": lambda m, x: (
        opto.discovery.learn_circuit(score, m, x, x, penalty=1.0, gates="heads")
    ),
    "at is opto.At(...).each(...), got At('embed')": lambda m, x: (
        opto.patching.activation_patch(score, m, x, x, at=At("embed"))
    ),
    "'blocks.1.attn.z' are themselves frozen": path("embed", "blocks.1.attn.z"),
    "there is no path from At('logits') to At('embed')": path("logits", "embed"),
    "are made of 'blocks.1.attn.z'": path("embed", "blocks.1.attn.out"),
    "['**.zz'] matches no site": path("embed", "logits", frozen="**.zz"),
    "no site 'embedd'; did you mean 'embed'?": path("embedd", "logits"),
    "'tokens.role' holds int32, which has no": lambda m, x: (
        opto.attribution.attribution_patch(score, m, x, x, sites="tokens.role")
    ),
    "source has shapes [(1, 3, 4), (1, 3)]": lambda m, x: (
        opto.attribution.attribution_patch(
            score, m, inputs(0, (3,)), inputs(1, (1,)), sites="embed"
        )
    ),
    "is computed before along='embed'": integrated(sites="tok_embed"),
    "along is one site": integrated(sites="logits", along="blocks.*.resid_pre"),
    "threshold must be positive, got 0.0": found(threshold=0.0),
    "no site 'w'": found(writers=["w"]),
    "no site matches '**.kin'": found(readers=["**.q_in", "**.kin"]),
    "an edge joins sites whose values have one": found(readers=["tokens.label"]),
    "must be a floating-point number, got int32": found(
        lambda out, *_: (out > 0).sum()
    ),
    # What would do nothing.
    "swept edits cannot come before Graft(": lambda m, x: opto.sweep(
        score, m, *x, edits=[SWEPT["heads"](), opto.Graft(m, from_=1)]
    ),
    "heads='0:0') would have no effect": lambda m, x: opto.sweep(
        score, m, *x, edits=[opto.Graft(m, until=0), SWEPT["heads"]()]
    ),
    "Zero('blocks.0.attn.z') would have no effect": lambda m, x: opto.run(
        m, *x, edits=[PerfectPreviousToken(), Zero("blocks.0.attn.z")]
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MISTAKES[message](small(2), inputs(0))


def test_what_a_sender_feeds_within_its_part_is_not_held():
    """A head's `v` acts through the head's `z`, so `z` is not held."""
    model, own, other = small(), inputs(0), inputs(1)
    _, record = opto.run(model, *other, record=["blocks.0.attn.v", "blocks.0.attn.z"])
    sites = At("blocks.0.attn.v", head=1), At("blocks.2.attn.k")
    ours, _ = opto.run(model, *own, edits=[opto.patching.PathPatch(*sites, record)])
    _, moved = opto.run(
        model, *own, record="**.z", edits=[Patch("blocks.0.attn.v", record, head=1)]
    )
    sites = At("blocks.0.attn.z", head=1), At("blocks.2.attn.k")
    expected, _ = opto.run(model, *own, edits=[opto.patching.PathPatch(*sites, moved)])
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    assert np.any(np.abs(ours - model_out(model, own)) > 1e-3)


def test_sweeps_are_of_the_model_that_is_run():
    """With a graft of the last layers, the grafted model's heads count (here more)."""
    narrow, wide, example = small(2), small(2, num_heads=4), inputs(0)
    graft = opto.Graft(wide, from_=1)
    edits = [graft, Zero("blocks.1.attn.z").each("head")]
    ours = opto.sweep(score, narrow, *example, edits=edits)
    assert ours.shape == (4,)
    for head in range(4):
        edits = [graft, Zero("blocks.1.attn.z", head=head)]
        out, _ = opto.run(narrow, *example, edits=edits)
        np.testing.assert_allclose(ours[head], score(out, *example), atol=1e-6)


def test_temperatures_of_match_have_a_gradient():
    model, (examples, labels) = small(2), inputs(0)

    @jax.jit
    def logit(temperature):
        edit = Pattern(Match(temperature), site="blocks.1.attn.pattern")
        return opto.visit(model, examples, labels, edits=[edit])[0][-1, 0]

    slope = (logit(0.71) - logit(0.69)) / 0.02  # A smaller step would show rounding.
    np.testing.assert_allclose(jax.jit(jax.grad(logit))(0.7), slope, rtol=2e-2)
