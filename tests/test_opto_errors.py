"""Mistakes and their messages."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import MODELS, Ragged, Tokens

import icl.edits  # noqa: F401  Texts may have its edits.
import opto
from opto import Clamp, Mean, parse, Resample, Zero
from opto.attention import Pattern, Uniform


@functools.cache
def case(name):
    return MODELS[name]()


def run(*edits, model="ragged", record=()):
    model, inputs = case(model)
    return opto.run(model, *inputs, record=record, edits=edits)


def sweep(*edits, **settings):
    model, inputs = case("ragged")
    total = lambda out, x: out.sum()
    return opto.sweep(total, model, *inputs, edits=edits, **settings)


def taps(body):
    """A model with one input whose call is `body(x, tap)`."""
    return lambda x, tap=opto.identity: body(x, tap)


def taking(*axes):
    """A model whose inputs have these axes."""

    class Model(eqx.Module):
        input_axes = axes[0] if axes == ("seq",) else axes

        def __call__(self, *inputs, tap=opto.identity):
            return inputs[0]

    return Model()


TRANSFORMATIONS = {
    "vmap": jax.vmap,
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, r: (c, f(r)), 0.0, x)[1],
    "grad": lambda f: lambda x: jax.grad(lambda y: f(y).sum())(x[0]),
    "cond": lambda f: lambda x: jax.lax.cond(x[0, 0] > 0, f, lambda y: y, x[0]),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_site_inside_of_a_transformation(name):
    """The value cannot leave: sites would be wrong and the record would leak."""
    inside = TRANSFORMATIONS[name]
    model = taps(lambda x, tap: inside(lambda row: tap("h", 2 * row, "d"))(x))
    x = jnp.ones((2, 3))
    message = "site 'h' is named inside of a vmap, scan, jit or similar"
    for look in (
        lambda: opto.sites(model, x),
        lambda: opto.run(model, x),
        lambda: opto.visit(model, x, record="h"),
        lambda: jax.jit(lambda x: opto.toolkit.lift(model)(x, edits=[Zero("h")]))(x),
    ):
        with pytest.raises(ValueError, match=message):
            look()
    opto.visit(model, x)  # Without a request nothing leaks.


# Texts of edits that do not fit the model `ragged`, or that are no edits.
TEXTS = {
    # Sites.
    "Zero('layers.1.pattrn')": "'layers.1.pattrn'; did you mean 'layers.1.pattern'?",
    "Zero('layers.*.pattrn')": "no site matches 'layers.*.pattrn'; did you mean",
    "Zero('layers.7.z')": "no site 'layers.7.z'; did you mean",
    "Zero('z')": "no site 'z'; sites: layers.0.z, layers.1.z",
    "Zero('layers.0xz')": "no site 'layers.0xz'",
    "Zero('layers.*z')": "no site matches 'layers.*z'",
    # Selections.
    "Zero('layers.1.z', head=3)": "head 3 is out of range at layers.1.z float32[head=3",
    "Zero('layers.1.z', head=-4)": "head -4 is out of range",
    "Zero('layers.1.z', head=[0, 9])": "head 9 is out of range",
    "Zero('layers.1.z', unit=2)": "unit 2 is out of range",
    "Zero('layers.1.z', pos=4)": "seq 4 is out of range",
    "Zero('layers.*.z', head=2)": "head 2 is out of range at layers.0.z",
    "Zero('layers.*.z', heads='1:2 0:2')": "head 2 is out of range at layers.0.z",
    "Zero('layers.*.z', layer=1, head=3)": "head 3 is out of range at layers.1.z",
    "Zero('layers.*.z', layer=2)": "out of range: the sites are in layers [0, 1]",
    "Zero('layers.1.z', layer=0)": "out of range: the sites are in layers [1]",
    "Freeze('layers.*.z', head=2)": "head 2 is out of range",
    "Zero('embed', layer=0)": "has no axis 'layer'",
    "Zero('layers.1.z', haed=1)": "has no axis 'haed'; did you mean 'head'?",
    "Zero('embed', strengh=0.5)": "got 0.5; did you mean 'strength'?",
    "Zero('x', head=[])": "head=[] selects nothing",
    "Zero('x', heads='')": "selects nothing",
    "Zero('x', head=1.5)": "head= takes whole-number indices, got 1.5",
    "Zero('x', head=[True, False])": "head= takes whole-number indices",
    "Zero('x', pos=0, seq=1)": "pos= and seq= are the same axis",
    "Zero('layers.*.z', unit=0, d_head=1)": "unit= and d_head= are the same axis",
    "Zero('x', heads='0:1', head=1)": "heads= already says which head",
    "Zero('x', heads='3')": "such as '1:3', got '3'",
    "Zero('x', heads=1)": "of every layer that the site selects, write head=1",
    # Values. Without a check, some of these would broadcast over other axes.
    "Clamp('layers.1.z', [1, 2])": "shape (2,) does not fit layers.1.z float32[head=3",
    "Scale('layers.1.z', [1, 2])": "shape (2,) does not fit layers.1.z",
    "Steer('layers.1.z', [1, 2])": "shape (2,) does not fit layers.1.z",
    "Clamp('layers.1.z', [[[1], [2]]])": "shape (1, 2, 1) does not fit layers.1.z",
    "Clamp('layers.*.z', [[[1]], [[2]]])": "shape (2, 1, 1) does not fit layers.1.z",
    "Clamp('layers.1.z', [1, 2], axes='heed')": "no axis 'heed'; did you mean 'head'?",
    "Scale('layers.1.z', [1, 2], axes='heed')": "no axis 'heed'; did you mean 'head'?",
    "Clamp('layers.*.z', [1, 2], axes='layer')": "has no axis 'layer'",
    "Clamp('layers.1.z', [1, 2], axes='head seq')": "does not fit a value of shape (2,",
    "Clamp('layers.1.z', [1, 2], axes='head')": "does not fit",
    "Steer('layers.1.z', [1, 2, 3], axes='d_head')": "(1, 1, 3) does not fit layers.1",
    "Clamp('x', 1e999)": "the value is not finite everywhere",
    "Patch('layers.1.z', {'layers.1.z': [[[1]], [[2]], [[3]]]})": "got 1; source_",
    "Patch('layers.*.z', {'layers.1.z': 1})": "no value for 'layers.0.z'; there are",
    "Zero('embed', strength=0)": "an edit at strength 0 changes nothing",
    "Zero('embed', strength=[0.5])": "strength is one number, got an array of",
    "Zero('x', mask=[[1, 0]])": "mask= is an array of booleans, got int",
    "Zero('x', mask=[[False]])": "mask= selects nothing",
    "Zero('layers.1.z', mask=[[True]])": "mask= of shape (1, 1) at layers.1.z",
    "Freeze('layers.*.z', mask=[[[True]], [[True]], [[True]]])": "(3, 1, 1) at layer",
    # Patterns, and what they need to know of the tokens.
    "Pattern(Match(-0.5))": "temperature must be 0 or more and finite, got -0.5",
    "Block(distance=-1)": "distance is a number of tokens or None, got -1",
    "Block(distance=1, strength=1.5)": "strength is a number in [0, 1], got 1.5",
    "Pattern(Match(), site='layers.0.z')": "is for attention from each token to all",
    "Block(distance=1, site='**.v')": "is for attention from each token to all",
    "Pattern(Induction(), site='**.pattern')": "needs the sites tokens.role, tokens.p",
    "CopyFromPattern(heads='0:0', site='**.pattern')": "needs the sites tokens.role,",
    # No edits.
    "": "character 1: ",
    "Zero": "expected an edit such as Zero(",
    "Zero('x'), Zero('y')": "expected an edit such as Zero(",
    "Zero('x').each('head')": "expected an edit such as Zero(",
    "zero('x')": "no edit 'zero'; did you mean 'Zero'?",
    "Zero('x'": "character 5: '(' was never closed",
    "Clamp('x')": "required argument: 'value'; the form is Clamp(site, value, *, ",
    "Zero('x', 1)": "too many positional arguments; the form is Zero(site, *, ",
    "Zero('x', head=1, head=2)": "character 19: head= is given twice",
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("text", "message"), TEXTS.items())
def test_texts_of_wrong_edits(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        run(parse(text))
    assert "\n" not in str(caught.value)


# The same for the model `transformer`, which names its tokens.
VERBS = {
    "Pattern(Match(), heads='0:3')": "head 3 is out of range at blocks.0.attn.pattern",
    "Pattern(Match(), mask=[[True, False]])": "mask= of shape (1, 2) at blocks.0.attn",
    "Mean('tokens.label', {'tokens.label': [0, 1, 2]})": "does not hold floating-point",
    "CopyFromPattern()": "CopyFromPattern() reads one head, such as heads='1:3', got 3",
    "CopyFromPattern(layer=0, head=[0, 2])": "reads one head, such as heads='1:3', got",
    "CopyFromPattern(heads='0:0', logits='logit')": "did you mean 'logits'?",
    "CopyFromPattern(heads='0:0', logits='**.out')": "attn.out, blocks.0.mlp.out; give",
    "CopyFromPattern(heads='0:0', edits=[Zero('embd')])": "did you mean 'embed'?",
    "PerfectPreviousToken()": "no site 'blocks.1.resid_pre'; did you mean 'blocks.0.re",
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("text", "message"), VERBS.items())
def test_texts_of_wrong_verbs(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        run(parse(text), model="transformer")


z = "layers.1.z"
ones = jnp.ones

ERRORS = {
    "did you mean 'layers.*.pattern'": lambda: run(record="layers.*.pattrn"),
    "record asks for 'layers.1.z' twice": lambda: run(
        record={z: jnp.sum, "layers.*.z": None}
    ),
    "edits is a sequence of edits, got one: write [Zero(": lambda: opto.run(
        *(case("ragged")[0], *case("ragged")[1]), edits=Zero(z)
    ),
    "head 9 is out of range": lambda: run(Zero(z, head=opto.PerExample([0, 9, 1]))),
    "source_seq=[9, 0, 0] is out of range": lambda: run(
        opto.Patch(
            z,
            run(record=z)[1],
            pos=opto.PerExample([0, 1, 1]),
            source_pos=opto.PerExample([9, 0, 0]),
        )
    ),
    "was changed by a function": lambda: opto.Patch(
        z, run(record={z: lambda value: value.mean(0)})[1]
    ),
    "is swept: give it to opto.sweep": lambda: run(Zero(z).each("head")),
    "the value at 'b' is not a number everywhere": lambda: opto.Patch(
        "*", {"a": [0.0, 1.0], "b": [1.0, np.nan]}
    ),
    "the record of 'embed' is not of a batch": lambda: Mean(
        "embed", run(record="embed")[1]
    ),
    "needs two examples or more, got shape (1, 2)": lambda: Resample(
        "a", {"a": [[1.0, 2.0]]}
    ),
    "needs the sites tokens.exemplar": lambda: opto.run(
        Tokens(), jnp.array([1, 1]), edits=[parse("Pattern(Match())")]
    ),
    "needs the sites tokens.role": lambda: run(
        Pattern(Uniform(queries="label"), site="**.pattern")
    ),
    # Sweeps.
    "each() needs the name of an axis": lambda: Zero(z).each(),
    "names an axis twice": lambda: Zero(z).each("pos", "seq"),
    "did you mean 'head'?": lambda: sweep(Zero(z).each("hed")),
    "has no axis 'layer'": lambda: sweep(Zero("embed").each("layer")),
    "unit= and d_head= are the same axis": lambda: sweep(
        Zero(z).each("unit", "d_head")
    ),
    "heads= picks pairs": lambda: Zero("layers.*.z", heads="0:1 1:2").each("head"),
    "head 3 is out of range": lambda: sweep(Zero(z, head=[0, 3]).each("head")),
    "no edit is swept": lambda: sweep(Zero(z)),
    "head 5 is out of range": lambda: sweep(Zero(z).each("head"), Zero(z, head=5)),
    "head 6 is out of range": lambda: sweep(opto.stack([Zero(z), Zero(z, head=6)])),
    "has no strength, so it cannot be off": lambda: opto.stack(
        [Zero(z), opto.Graft(Ragged(jax.random.key(0)), until=0)]
    ),
    "chunk is a positive number": lambda: sweep(Zero(z).each("head"), chunk=0),
    "'tokens.label' holds int32, which has no gradient": lambda: opto.strength_grad(
        lambda out, *_: out.sum(),
        *(case("transformer")[0], *case("transformer")[1]),
        edits=Zero("tokens.label").each("exemplar"),
    ),
    # Models and inputs.
    "two values are named 'a'; use tap.scope": lambda: opto.sites(
        taps(lambda x, t: t("a", x, "i") + t("a", x, "i")), ones(2)
    ),
    "site 'a' has axes 'i', but shape (2, 3)": lambda: opto.run(
        taps(lambda x, t: t("a", x, "i")), ones((2, 3))
    ),
    "site 'a' has axes 'i i', but shape (2, 2)": lambda: opto.run(
        taps(lambda x, t: t("a", x, "i i")), ones((2, 2))
    ),
    "site 'a' is not an array of numbers but tuple": lambda: opto.sites(
        taps(lambda x, t: t("a", (x, x), "i")), ones(2)
    ),
    "model must take tap=, got ": lambda: opto.run(lambda x: x, ones(2)),
    "input_axes must be a tuple": lambda: opto.run(taking("seq"), ones(3)),
    "expected 1 inputs ('seq d'), got 2": lambda: opto.run(
        taking("seq d"), ones((4, 6)), ones(4)
    ),
    "input 0 has axes 'seq d', got an array of shape (6,)": lambda: opto.run(
        taking("seq d"), ones(6)
    ),
    "the inputs' batch axes differ ('seq d': (5,), 'seq': (3,))": lambda: opto.run(
        taking("seq d", "seq"), ones((5, 4, 6)), ones((3, 4))
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", ERRORS)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ERRORS[message]()


@pytest.mark.usefixtures("unchecked")
def test_a_generator_of_edits_is_not_empty():
    model, inputs = case("ragged")
    # Without attention the stream does not change.
    out, _ = opto.run(model, *inputs, edits=(Zero(name) for name in ["layers.*.z"]))
    np.testing.assert_array_equal(out, inputs[0])


@pytest.mark.usefixtures("unchecked")
def test_a_numpy_constant_is_a_site():
    model = taps(lambda x, tap: x * tap("c", np.full(2, 3.0), "i"))
    out, record = opto.run(model, ones(2), record="c", edits=[Zero("c", i=0)])
    np.testing.assert_array_equal(out, [0, 3])
    assert record["c"].dtype == jnp.float32


def test_within_jit_the_text_of_an_edit_gives_shapes():
    shown = []
    jax.jit(lambda v, i: shown.append(repr(Clamp("x", v, head=i))))(ones(3), 1)
    assert shown == ["Clamp('x', value=float32[3], head=int32[1, 1])"]


def test_a_models_own_error_is_equinoxs():
    def body(x, tap):
        x = tap("x", x, "i")
        return eqx.error_if(x, jnp.any(x > 5), "too large")

    model = taps(body)
    np.testing.assert_array_equal(opto.run(model, ones(2))[0], [1, 1])
    with pytest.raises(RuntimeError, match="EquinoxRuntimeError: too large"):
        opto.run(model, ones(2), edits=[Clamp("x", 6)])
