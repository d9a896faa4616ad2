"""Grafts of another model's layers, against the two models run by hand."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import Count, Counted, MLP

import opto
from icl.edits import CopyFromPattern, PerfectPreviousToken
from icl.models import exemplar_label_interface, NoPositions, TransformerConfig
from opto import Clamp, Freeze, Graft, Scale, Zero
from opto.attention import Pattern, PreviousToken


# Number of layers, and seed.
MODELS = {
    "own": (2, 0),
    "other": (2, 1),
    "deep": (3, 2),
    "shallow": (1, 3),
    "donor": (2, 4),
}


@functools.cache
def model(name):
    layers, seed = MODELS[name]
    config = TransformerConfig(layers, 4, 2, positions=NoPositions())
    return config.build(exemplar_label_interface(3, dim=3), key=jax.random.key(seed))


@functools.cache
def sequence():
    return jax.random.normal(jax.random.key(9), (3, 3)), jnp.array([2, 1, 2])


SITES = ["embed", "blocks.*.resid_post", "blocks.*.attn.pattern", "logits"]


def seam_of(layer):
    return "embed" if layer < 0 else f"blocks.{layer}.resid_post"


def by_hand(lower, upper, layer, inputs, lower_edits=(), upper_edits=()):
    """Runs `upper` on the residual stream that `lower` has after a layer."""
    seam = seam_of(layer)
    stream = opto.visit(lower, *inputs, record=seam, edits=lower_edits)[1][seam]
    edits = [Clamp(seam, stream), *upper_edits]
    return opto.visit(upper, *inputs, record=SITES, edits=edits)


def assert_close(ours, expected):
    pairs = zip(*map(jax.tree.leaves, (ours, expected)), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# Seams: (this model, the other one, layer).
SEAMS = {
    "embedding": ("own", "other", -1),
    "all_layers": ("own", "other", 1),
    "from_deeper": ("own", "deep", 1),
    "into_deeper": ("deep", "other", 0),
}


def test_layers_of_another_model():
    """`until`, and the same as `from_` with the two models exchanged."""
    seams = {k: (model(own), model(other), at) for k, (own, other, at) in SEAMS.items()}

    @eqx.filter_jit
    def runs(inputs):
        visit = functools.partial(opto.visit, record=SITES)
        return {
            name: (
                visit(own, *inputs, edits=[Graft(other, until=layer)]),
                visit(other, *inputs, edits=[Graft(own, from_=layer + 1)]),
                by_hand(other, own, layer, inputs),
            )
            for name, (own, other, layer) in seams.items()
        }

    found = runs(sequence())
    for until, from_, expected in found.values():
        assert_close(until, expected)
        assert_close(from_, expected)
        # All recorded sites are those of the model with the last layers.
        assert [*until[1]] == [*from_[1]] == [*expected[1]]
    logits = np.stack([expected[0] for *_, expected in found.values()])
    assert len(np.unique(np.round(logits, 4), axis=0)) == len(SEAMS)
    for plain in (model("own"), model("other")):
        assert np.abs(logits - plain(*sequence())).max(axis=(1, 2)).min() > 1e-3


def edited():
    """Edits of both models, with a graft of layer 0 from the other one.

    By name: the list, then the edits of the lower and of the upper model.
    """
    lower = [Zero("blocks.0.attn.z", head=1), Pattern(PreviousToken(), heads="0:0")]
    upper = [
        Scale("blocks.1.attn.scores", 3.0),
        Freeze("blocks.1.attn.v", strength=0.5),
    ]
    early, first = Zero("blocks.0.attn.v", head=0), Zero("embed", pos=0)
    at_seam = Scale("blocks.0.resid_post", 0.5)
    other = model("other")
    return {
        "until": ([Graft(other, until=0, edits=lower), *upper], lower, upper),
        "until_then": ([*upper, Graft(other, until=0, edits=lower)], lower, upper),
        "until_embedding": (
            [early, Graft(other, until=-1, edits=[first])],
            [first],
            [early],
        ),
        "at_the_seam": ([Graft(other, until=0), at_seam], [], [at_seam]),
        "donor_at_the_seam": ([Graft(other, until=0, edits=[at_seam])], [at_seam], []),
        "from": ([*lower, Graft(other, from_=1, edits=upper)], lower, upper),
        "from_then": ([*lower, Graft(other, from_=1), *upper], lower, upper),
        "from_both": (
            [*lower, Graft(other, from_=1, edits=upper[:1]), upper[1]],
            lower,
            upper,
        ),
        "from_at_the_seam": (
            [at_seam, Graft(other, from_=1), *upper],
            [at_seam],
            upper,
        ),
        "from_0": ([first, Graft(other, from_=0), early], None, [early]),
    }


def test_edits_of_either_model():
    own, other, example, cases = model("own"), model("other"), sequence(), edited()

    def expected(edits, of_lower, of_upper):
        if of_lower is None:  # Only the embedding is this model's.
            return by_hand(own, other, -1, example, edits[:1], of_upper)
        graft = next(e for e in edits if isinstance(e, Graft))
        pair = (other, own) if graft.from_ is None else (own, other)
        layer = 0 if graft.until is None else graft.until
        return by_hand(*pair, layer, example, of_lower, of_upper)

    @jax.jit
    def runs():
        return {
            name: (
                opto.visit(own, *example, record=SITES, edits=edits),
                expected(edits, of_lower, of_upper),
            )
            for name, (edits, of_lower, of_upper) in cases.items()
        }

    for ours, theirs in runs().values():
        assert_close(ours, theirs)


def test_a_graft_within_a_graft():
    """Layer 0 is from one model, layer 1 from a second, and layer 2 from a third."""
    own, other, deep = model("own"), model("other"), model("deep")
    example = sequence()
    inner = Graft(own, until=0)
    nested = [Graft(other, until=1, edits=[inner])]
    twice = [Graft(other, until=1), Graft(own, until=0)]
    from_ = [Graft(other, from_=1), Graft(deep, from_=2)]

    @jax.jit
    def runs():
        middle = by_hand(own, other, 0, example)[1]["blocks.1.resid_post"]
        edits = [Clamp("blocks.1.resid_post", middle)]
        return (
            opto.visit(deep, *example, edits=edits)[0],
            opto.visit(deep, *example, edits=nested)[0],
            opto.visit(own, *example, edits=from_)[0],
        )

    expected, *ours = runs()
    for logits in ours:
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    for edits in (twice, twice[::-1]):
        with pytest.raises(ValueError, match="until=0.* would have no effect: .*til=1"):
            opto.run(deep, *example, edits=edits)


def test_batches_and_one_trace():
    """Another model of the same shape does not compile again."""
    own, other, donor = model("own"), model("other"), model("donor")
    inputs = [jnp.stack([x, jnp.roll(x, 1, axis=0)]) for x in sequence()]
    count = Count()
    counted = Counted(own, count)
    pairs = {"until": (other, own), "from_": (own, other)}
    for i, (side, pair) in enumerate(pairs.items()):
        hand = lambda *one, pair=pair: by_hand(*pair, 0, one)[0]
        ours, _ = opto.run(counted, *inputs, edits=[Graft(other, **{side: i})])
        expected = jax.jit(jax.vmap(hand))(*inputs)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
        traced = len(count)
        another, _ = opto.run(counted, *inputs, edits=[Graft(donor, **{side: i})])
        assert np.abs(another - ours).max() > 1e-3
        assert len(count) == traced


# Training.


def loss(model, examples, labels, tap=opto.identity):
    return -jax.nn.log_softmax(model(examples, labels, tap=tap)[-1])[labels[-1]]


def test_training_moves_the_layers_in_use():
    """Gradients equal those of a function that runs both models by hand."""
    example = sequence()

    @eqx.filter_jit
    def slopes(own, other):
        grad = eqx.filter_grad
        until = lambda pair: opto.toolkit.lift(loss)(
            pair[0], *example, edits=[Graft(pair[1], until=0)]
        )
        from_ = lambda pair: opto.toolkit.lift(loss)(
            pair[1], *example, edits=[Graft(pair[0], from_=1)]
        )

        def by_hand(pair):
            own, other = pair
            x = other.embedding(*example)
            for block in (other.blocks[0], own.blocks[1]):
                x = block(x, own.embedding.positions)
            logits = jax.vmap(own.unembed)(jax.vmap(own.final_norm)(x))
            return -jax.nn.log_softmax(logits[-1])[example[1][-1]]

        return [grad(fn)((own, other)) for fn in (until, from_, by_hand)]

    until, from_, expected = slopes(model("own"), model("other"))
    assert_close(until, expected)
    assert_close(from_, expected)
    moved = lambda tree: any(np.any(x) for x in jax.tree.leaves(tree))
    own, other = until
    assert [moved(block) for block in own.blocks] == [False, True]
    assert [moved(block) for block in other.blocks] == [True, False]
    assert [moved(m.embedding) for m in (own, other)] == [False, True]
    assert [moved(m.unembed) for m in (own, other)] == [True, False]


def test_a_method_and_a_loss_that_closes_over_the_model():
    """The call's model is the module that owns the method, or the first argument."""
    own, other, example = model("own"), model("other"), sequence()
    graft = [Graft(other, from_=1)]

    @jax.jit
    def runs():
        expected = by_hand(own, other, 0, example)[0]
        return (
            expected[-1],
            opto.visit(own.query_logits, *example, edits=graft)[0],
            opto.visit(
                lambda m, *x, tap: m(*x, tap=tap)[-1], own, *example, edits=graft
            )[0],
        )

    expected, *ours = runs()
    for logits in ours:
        np.testing.assert_allclose(logits, expected, atol=1e-5)


# Impossible grafts.

X = np.ones(4)
no_layers = lambda x, tap=opto.identity: tap("x", x, "i")


@functools.cache
def tiny():
    return MLP(jax.random.key(0))


def wider(x, tap=opto.identity):
    return tap.scope("layers.0")("post", jnp.ones(5), "hidden")


def run(*edits):
    return opto.run(tiny(), X, edits=edits)


ERRORS = {
    "neither": (lambda: Graft(tiny()), "takes either until= or from_=, a layer"),
    "until": (
        lambda: Graft(tiny(), until=-2),
        "until is the number of a layer, got -2",
    ),
    "model": (lambda: Graft(3, until=0), "is a model or the path of a run, got 3"),
    "edits": (
        lambda: Graft(tiny(), until=0, edits=Zero("out")),
        "edits is a sequence of edits, got one: write [Zero('out')]",
    ),
    "not_loaded": (
        lambda: run(Graft("runs/7", until=0)),
        "Graft(model='runs/7', until=0) names a run: load its model first (loaded())",
    ),
    "until_too_high": (
        lambda: run(Graft(tiny(), until=3)),
        "until=3 is out of range: the model has layers [0, 1, 2]",
    ),
    "nothing_before": (
        lambda: run(Graft(tiny(), until=-1)),
        "there is no site before the first layer to graft at",
    ),
    "donor_is_too_shallow": (
        lambda: opto.run(
            model("deep"), *sequence(), edits=[Graft(model("shallow"), until=1)]
        ),
        "no site 'blocks.1.resid_post'; did you mean 'blocks.0.resid_post'?",
    ),
    "donor_is_wider": (
        lambda: run(Graft(wider, until=0)),
        "an array of shape (5,) does not fit layers.0.post float32[hidden=4]",
    ),
    "donor_edit_wrong": (
        lambda: run(Graft(tiny(), until=0, edits=[Zero("layers.0.past")])),
        "no site 'layers.0.past'; did you mean 'layers.0.post'?",
    ),
    "below_the_seam": (
        lambda: run(Graft(tiny(), until=1), Zero("layers.0.pre", unit=1)),
        "Zero('layers.0.pre', unit=1) would have no effect: Graft(model=<MLP>, until=1"
        ") replaces what it changes; give edits of the other model to Graft(edits",
    ),
    "at_the_seam_first": (
        lambda: run(Zero("layers.1.post"), Graft(tiny(), until=1)),
        "Zero('layers.1.post') would have no effect",
    ),
    "verb": (
        lambda: opto.run(
            model("own"),
            *sequence(),
            edits=[Graft(model("other"), until=1), PerfectPreviousToken()],
        ),
        "PerfectPreviousToken() would have no effect",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_are_named(name):
    mistake, message = ERRORS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        mistake()


def test_what_still_has_an_effect_is_no_mistake():
    """Edits above the seam, over several layers, or from below to above."""
    own, other, example = model("own"), model("other"), sequence()
    graft = Graft(other, until=1)
    copy = CopyFromPattern(heads="1:0")
    opto.toolkit.check([copy, graft], opto.sites(own, *example))
    opto.toolkit.check(
        [graft, Zero("blocks.1.resid_post", pos=0)], opto.sites(own, *example)
    )
    lists = [Graft(other, until=0), Zero("blocks.*.attn.z", head=0)]
    opto.toolkit.check(lists, opto.sites(own, *example))
    ours, plain = (opto.run(own, *example, edits=e)[0] for e in ([graft, copy], [copy]))
    # It reads this model's own scores; after the graft, these feed into nothing.
    np.testing.assert_allclose(ours[-1], plain[-1], rtol=1e-5)
