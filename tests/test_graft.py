"""Layers of another model, against the two models run by hand."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import Count, Counted, MLP

import opto
from icl.models import NoPositions, TransformerConfig
from opto import Clamp, Freeze, Graft, Pattern, PreviousToken, Scale, Zero


def model(layers, seed):
    config = TransformerConfig(layers, 4, 2, positions=NoPositions())
    return config.build(3, dim=3, key=jax.random.key(seed))


OWN, OTHER, DEEP, SHALLOW = model(2, 0), model(2, 1), model(3, 2), model(1, 3)
DONOR = model(2, 4)
INPUTS = jax.random.normal(jax.random.key(9), (3, 3)), jnp.array([2, 1, 2])
SITES = ["embed", "blocks.*.resid_post", "blocks.*.attn.pattern", "logits"]


def seam_of(layer):
    return "embed" if layer < 0 else f"blocks.{layer}.resid_post"


def by_hand(lower, upper, layer, inputs, lower_edits=(), upper_edits=()):
    """`upper` from the stream on that `lower` has after a layer."""
    seam = seam_of(layer)
    stream = opto.visit(lower, *inputs, record=seam, edits=lower_edits)[1][seam]
    edits = [Clamp(seam, stream), *upper_edits]
    return opto.visit(upper, *inputs, record=SITES, edits=edits)


def assert_close(ours, expected):
    pairs = zip(*map(jax.tree.leaves, (ours, expected)), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# The seams: (this model, the other, layer).
SEAMS = {
    "embedding": (OWN, OTHER, -1),
    "all_layers": (OWN, OTHER, 1),
    "from_deeper": (OWN, DEEP, 1),
    "into_deeper": (DEEP, OTHER, 0),
}


def test_layers_of_another_model():
    """`until`, and `from_` of the two models the other way round."""

    @eqx.filter_jit
    def runs(inputs):
        visit = functools.partial(opto.visit, record=SITES)
        return {
            name: (
                visit(own, *inputs, edits=[Graft(other, until=layer)]),
                visit(other, *inputs, edits=[Graft(own, from_=layer + 1)]),
                by_hand(other, own, layer, inputs),
            )
            for name, (own, other, layer) in SEAMS.items()
        }

    found = runs(INPUTS)
    for until, from_, expected in found.values():
        assert_close(until, expected)
        assert_close(from_, expected)
        # All that is recorded is of the model of the last layers.
        assert [*until[1]] == [*from_[1]] == [*expected[1]]
    logits = np.stack([expected[0] for *_, expected in found.values()])
    assert len(np.unique(np.round(logits, 4), axis=0)) == len(SEAMS)
    for plain in (OWN, OTHER):
        assert np.abs(logits - plain(*INPUTS)).max(axis=(1, 2)).min() > 1e-3


# Edits of either model, around a graft of layer 0 from `OTHER`: the lists, the edits of
# the lower model, those of the upper one.

lower = [Zero("blocks.0.attn.z", head=1), Pattern(PreviousToken(), heads="0:0")]
upper = [Scale("blocks.1.attn.scores", 3.0), Freeze("blocks.1.attn.v", strength=0.5)]
early = Zero("blocks.0.attn.v", head=0)
at_seam = Scale("blocks.0.resid_post", 0.5)

EDITED = {
    "until": ([Graft(OTHER, until=0, edits=lower), *upper], lower, upper),
    "until_then": ([*upper, Graft(OTHER, until=0, edits=lower)], lower, upper),
    "until_embedding": (
        [early, Graft(OTHER, until=-1, edits=[Zero("embed", pos=0)])],
        [Zero("embed", pos=0)],
        [early],
    ),
    "at_the_seam": ([Graft(OTHER, until=0), at_seam], [], [at_seam]),
    "donor_at_the_seam": ([Graft(OTHER, until=0, edits=[at_seam])], [at_seam], []),
    "from": ([*lower, Graft(OTHER, from_=1, edits=upper)], lower, upper),
    "from_then": ([*lower, Graft(OTHER, from_=1), *upper], lower, upper),
    "from_both": (
        [*lower, Graft(OTHER, from_=1, edits=upper[:1]), upper[1]],
        lower,
        upper,
    ),
    "from_at_the_seam": ([at_seam, Graft(OTHER, from_=1), *upper], [at_seam], upper),
    "from_0": ([Zero("embed", pos=0), Graft(OTHER, from_=0), early], None, [early]),
}


def test_edits_of_either_model():
    def expected(edits, of_lower, of_upper):
        if of_lower is None:  # The embedding alone is this model's.
            return by_hand(OWN, OTHER, -1, INPUTS, edits[:1], of_upper)
        graft = next(e for e in edits if isinstance(e, Graft))
        pair = (OTHER, OWN) if graft.from_ is None else (OWN, OTHER)
        layer = 0 if graft.until is None else graft.until
        return by_hand(*pair, layer, INPUTS, of_lower, of_upper)

    @jax.jit
    def runs():
        return {
            name: (
                opto.visit(OWN, *INPUTS, record=SITES, edits=edits),
                expected(edits, of_lower, of_upper),
            )
            for name, (edits, of_lower, of_upper) in EDITED.items()
        }

    for ours, theirs in runs().values():
        assert_close(ours, theirs)


def test_a_graft_within_a_graft():
    """Layer 0 of one model, layer 1 of a second and layer 2 of a third."""
    inner = Graft(OWN, until=0)
    nested = [Graft(OTHER, until=1, edits=[inner])]
    twice = [Graft(OTHER, until=1), Graft(OWN, until=0)]
    from_ = [Graft(OTHER, from_=1), Graft(DEEP, from_=2)]

    @jax.jit
    def runs():
        middle = by_hand(OWN, OTHER, 0, INPUTS)[1]["blocks.1.resid_post"]
        edits = [Clamp("blocks.1.resid_post", middle)]
        return (
            opto.visit(DEEP, *INPUTS, edits=edits)[0],
            opto.visit(DEEP, *INPUTS, edits=nested)[0],
            opto.visit(OWN, *INPUTS, edits=from_)[0],
        )

    expected, *ours = runs()
    for logits in ours:
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    for edits in (twice, twice[::-1]):
        with pytest.raises(ValueError, match="until=0.* would have no effect: .*til=1"):
            opto.run(DEEP, *INPUTS, edits=edits)


def test_batches_and_one_trace():
    """Another model of the same shape does not compile again."""
    inputs = [jnp.stack([x, jnp.roll(x, 1, axis=0)]) for x in INPUTS]
    count = Count()
    own = Counted(OWN, count)
    pairs = {"until": (OTHER, OWN), "from_": (OWN, OTHER)}
    for i, (side, pair) in enumerate(pairs.items()):
        hand = lambda *one, pair=pair: by_hand(*pair, 0, one)[0]
        ours, _ = opto.run(own, *inputs, edits=[Graft(OTHER, **{side: i})])
        expected = jax.jit(jax.vmap(hand))(*inputs)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
        traced = len(count)
        other, _ = opto.run(own, *inputs, edits=[Graft(DONOR, **{side: i})])
        assert np.abs(other - ours).max() > 1e-3
        assert len(count) == traced


# Training.


def loss(model, examples, labels, tap=opto.identity):
    return -jax.nn.log_softmax(model(examples, labels, tap=tap)[-1])[labels[-1]]


def test_training_moves_the_layers_in_use():
    """Gradients equal those of the two models in one function, by hand."""

    @eqx.filter_jit
    def slopes(own, other):
        grad = eqx.filter_grad
        until = lambda pair: opto.lift(loss)(
            pair[0], *INPUTS, edits=[Graft(pair[1], until=0)]
        )
        from_ = lambda pair: opto.lift(loss)(
            pair[1], *INPUTS, edits=[Graft(pair[0], from_=1)]
        )

        def by_hand(pair):
            own, other = pair
            x = other.embedding(*INPUTS)
            for block in (other.blocks[0], own.blocks[1]):
                x = block(x, own.embedding.positions)
            logits = jax.vmap(own.unembed)(jax.vmap(own.final_norm)(x))
            return -jax.nn.log_softmax(logits[-1])[INPUTS[1][-1]]

        return [grad(fn)((own, other)) for fn in (until, from_, by_hand)]

    until, from_, expected = slopes(OWN, OTHER)
    assert_close(until, expected)
    assert_close(from_, expected)
    moved = lambda tree: any(np.any(x) for x in jax.tree.leaves(tree))
    own, other = until
    assert [moved(block) for block in own.blocks] == [False, True]
    assert [moved(block) for block in other.blocks] == [True, False]
    assert [moved(m.embedding) for m in (own, other)] == [False, True]
    assert [moved(m.unembed) for m in (own, other)] == [True, False]


def test_a_method_and_a_loss_that_closes_over_the_model():
    """The model of a call is the module whose method it is, or its first argument."""
    graft = [Graft(OTHER, from_=1)]

    @jax.jit
    def runs():
        expected = by_hand(OWN, OTHER, 0, INPUTS)[0]
        return (
            expected[-1],
            opto.visit(OWN.query_logits, *INPUTS, edits=graft)[0],
            opto.visit(
                lambda m, *x, tap: m(*x, tap=tap)[-1], OWN, *INPUTS, edits=graft
            )[0],
        )

    expected, *ours = runs()
    for logits in ours:
        np.testing.assert_allclose(logits, expected, atol=1e-5)


# What cannot be.

TINY = MLP(jax.random.key(0))
X = jnp.ones(4)
no_layers = lambda x, tap=opto.identity: tap("x", x, "i")


def wider(x, tap=opto.identity):
    return tap.scope("layers.0")("post", jnp.ones(5), "hidden")


def run(*edits):
    return opto.run(TINY, X, edits=edits)


ERRORS = {
    "neither": (lambda: Graft(TINY), "takes until= or from_=, a layer, and not both"),
    "both": (lambda: Graft(TINY, until=0, from_=1), "takes until= or from_=, a layer"),
    "until": (lambda: Graft(TINY, until=-2), "until is the number of a layer, got -2"),
    "from": (lambda: Graft(TINY, from_=-1), "from_ is the number of a layer, got -1"),
    "half": (lambda: Graft(TINY, from_=0.5), "from_ is the number of a layer, got 0.5"),
    "model": (lambda: Graft(3, until=0), "is a model or the path of a run, got 3"),
    "edits": (
        lambda: Graft(TINY, until=0, edits=Zero("out")),
        "edits is a sequence of edits, got one: write [Zero('out')]",
    ),
    "not_loaded": (
        lambda: run(Graft("runs/7", until=0)),
        "Graft(model='runs/7', until=0) names a run: load its model first (loaded())",
    ),
    "not_loaded_from": (
        lambda: run(Graft("runs/7", from_=1, checkpoint=64)),
        "Graft(model='runs/7', from_=1, checkpoint=64) names a run: load its model",
    ),
    "until_too_high": (
        lambda: run(Graft(TINY, until=3)),
        "until=3 is out of range, as is from_=4: the model has layers [0, 1, 2]",
    ),
    "from_too_high": (
        lambda: run(Graft(TINY, from_=4)),
        "until=3 is out of range, as is from_=4: the model has layers [0, 1, 2]",
    ),
    "nothing_before": (
        lambda: run(Graft(TINY, until=-1)),
        "there is no site before the first layer to graft at",
    ),
    "no_layers": (
        lambda: opto.run(no_layers, X, edits=[Graft(no_layers, until=0)]),
        "until=0 is out of range, as is from_=1: the model has layers []",
    ),
    "donor_has_no_such_site": (
        lambda: run(Graft(no_layers, until=0)),
        "no site 'layers.0.post'",
    ),
    "donor_is_too_shallow": (
        lambda: opto.run(DEEP, *INPUTS, edits=[Graft(SHALLOW, until=1)]),
        "no site 'blocks.1.resid_post'; did you mean 'blocks.0.resid_post'?",
    ),
    "donor_is_wider": (
        lambda: run(Graft(wider, until=0)),
        "an array of shape (5,) does not fit layers.0.post float32[hidden=4]",
    ),
    "donor_edit_wrong": (
        lambda: run(Graft(TINY, until=0, edits=[Zero("layers.0.past")])),
        "no site 'layers.0.past'; did you mean 'layers.0.post'?",
    ),
    "donor_edit_none": (
        lambda: run(Graft(TINY, until=0, edits=["Zero"])),
        "edits are opto.Edit values",
    ),
    "below_the_seam": (
        lambda: run(Graft(TINY, until=1), Zero("layers.0.pre", unit=1)),
        "Zero('layers.0.pre', unit=1) would have no effect: Graft(model=<MLP>, until=1"
        ") replaces what it changes; edits of the other model are given to Graft(edits",
    ),
    "of_one_layer": (
        lambda: run(Graft(TINY, until=1), Zero("layers.*.post", layer=0)),
        "Zero('layers.*.post', layer=0) would have no effect",
    ),
    "at_the_seam_first": (
        lambda: run(Zero("layers.1.post"), Graft(TINY, until=1)),
        "Zero('layers.1.post') would have no effect",
    ),
    "below_the_seam_of_from": (
        lambda: run(Graft(TINY, from_=2), Zero("layers.0.pre")),
        "Zero('layers.0.pre') would have no effect",
    ),
    "verb": (
        lambda: opto.run(
            OWN, *INPUTS, edits=[Graft(OTHER, until=1), opto.PerfectPreviousToken()]
        ),
        "PerfectPreviousToken() would have no effect",
    ),
    "frozen": (
        lambda: run(Freeze("**.pre", layer=0), Graft(TINY, until=0)),
        "Freeze('**.pre', layer=0) would have no effect",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_are_named(name):
    mistake, message = ERRORS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        mistake()


def test_what_still_has_an_effect_is_no_mistake():
    """Edits above the seam, of several layers, or that read below and change above."""
    graft = Graft(OTHER, until=1)
    copy = opto.CopyFromPattern(heads="1:0")
    opto.check([copy, graft], opto.sites(OWN, *INPUTS))
    opto.check([graft, Zero("blocks.1.resid_post")], opto.sites(OWN, *INPUTS))
    lists = [Graft(OTHER, until=0), Zero("blocks.*.attn.z", head=0)]
    opto.check(lists, opto.sites(OWN, *INPUTS))
    ours, plain = (opto.run(OWN, *INPUTS, edits=e)[0] for e in ([graft, copy], [copy]))
    # What it reads are this model's own scores, which the graft feeds into nothing.
    np.testing.assert_allclose(ours[-1], plain[-1], rtol=1e-5)
