"""Mistakes and their messages; texts of edits, and texts that are none."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import MODELS, Ragged, Tokens

import opto
from icl.edits import CopyFromPattern, Induction, Match, PerfectPreviousToken
from opto import (
    Block,
    Clamp,
    Freeze,
    Mean,
    parse,
    Patch,
    Pattern,
    PreviousToken,
    Resample,
    Scale,
    Steer,
    Uniform,
    Zero,
)


@functools.cache
def ragged():
    return MODELS["ragged"]()


def run(*edits, record=()):
    model, inputs = ragged()
    return opto.run(model, *inputs, record=record, edits=edits)


def sweep(edits, **settings):
    model, inputs = ragged()
    total = lambda out, x: out.sum()
    return opto.sweep(total, model, *inputs, edits=edits, **settings)


def verbs(*edits):
    """Runs edits on a model that names its tokens."""
    model, inputs = MODELS["transformer"]()
    return opto.run(model, *inputs, edits=edits)


def of_batch(**values):
    """A record with one vector for each example."""
    axes = tuple((name, ("i",)) for name in values)
    return opto.Record({k: jnp.array(v) for k, v in values.items()}, axes)


def with_inputs(*shapes):
    model, _ = ragged()
    return opto.run(model, *(jnp.ones(shape) for shape in shapes))


def two_inputs(*shapes):
    class Two(eqx.Module):
        input_axes = ("seq d", "seq")

        def __call__(self, x, y, *, tap=opto.identity):
            return x

    return opto.run(Two(), *(jnp.ones(shape) for shape in shapes))


class Halves(eqx.Module):
    """Has a site of 16 bits, one of whole numbers and one of booleans."""

    input_axes = ("seq",)

    def __call__(self, x, *, tap=opto.identity):
        x = tap("x", x, "seq")
        places = tap("places", jnp.arange(len(x)), "seq")
        signs = tap("signs", x > 0, "seq")
        return tap("a", x.astype(jnp.float16), "seq") + places + signs


def halves(edits, batch=None):
    return opto.run(Halves(), jnp.ones(3 if batch is None else (batch, 3)), edits=edits)


def gradient(site):
    total = lambda out, *inputs: out.astype(jnp.float32).sum()
    edits = Zero(site).each("seq")
    return opto.strength_grad(total, Halves(), jnp.ones(3), edits=edits)


class Untupled(eqx.Module):
    input_axes = "seq"

    def __call__(self, x, *, tap=opto.identity):
        return tap("a", x, "seq")


def taps(body):
    """A model with one input whose call is `body(x, tap)`."""
    return lambda x, tap=opto.identity: body(x, tap)


def named_inside(transform):
    """A model that names a value inside of a JAX transformation."""
    return taps(lambda x, tap: transform(lambda row: tap("h", 2 * row, "d"))(x))


TRANSFORMATIONS = {
    "vmap": jax.vmap,
    "jit": jax.jit,
    "filter_jit": eqx.filter_jit,
    "checkpoint": jax.checkpoint,
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, r: (c, f(r)), 0.0, x)[1],
    "map": lambda f: lambda x: jax.lax.map(f, x),
    "grad": lambda f: lambda x: jax.grad(lambda y: f(y).sum())(x[0]),
    "jvp": lambda f: lambda x: jax.jvp(f, (x[0],), (x[0],)),
    "cond": lambda f: lambda x: jax.lax.cond(x[0, 0] > 0, f, lambda y: y, x[0]),
    "while": lambda f: lambda x: jax.lax.while_loop(lambda y: y[0] < 3, f, x[0]),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_site_inside_of_a_transformation(name):
    """The value cannot leave: sites would be wrong and the record would leak."""
    model = named_inside(TRANSFORMATIONS[name])
    x = jnp.ones((2, 3))
    message = "site 'h' is named inside of a vmap, scan, jit or similar"
    for look in (
        lambda: opto.sites(model, x),
        lambda: opto.run(model, x),
        lambda: opto.visit(model, x, record="h"),
        lambda: jax.jit(lambda x: opto.lift(model)(x, edits=[Zero("h")]))(x),
        lambda: jax.vmap(lambda x: opto.run(model, x, edits=[Zero("h")])[0])(x[None]),
    ):
        with pytest.raises(ValueError, match=message):
            look()
    # Without a request nothing leaks.
    model(x)
    opto.visit(model, x)


z, q = "layers.1.z", "layers.0.q"
P = "layers.*.pattern"

ERRORS = {
    "token_names": (lambda: opto.name_tokens("kind", w=1.5), "w is a whole number"),
    "no_token_names": (lambda: opto.name_tokens("kind"), "name_tokens needs a name"),
    "list": (
        lambda: opto.sites(MODELS["transformer"]()[0], [[0.0] * 8] * 5, [0] * 5),
        "input 0 must be an array (jnp.asarray), got a list",
    ),
    # Sites.
    "misspelt": (
        lambda: run(Zero("layers.1.pattrn")),
        "no site 'layers.1.pattrn'; did you mean 'layers.1.pattern'?",
    ),
    "misspelt_glob": (
        lambda: run(record="layers.*.pattrn"),
        "no site matches 'layers.*.pattrn'; did you mean 'layers.*.pattern'?",
    ),
    "end_alone": (
        lambda: run(record="z"),
        "no site 'z'; sites: layers.0.z, layers.1.z",
    ),
    "nothing_near": (
        lambda: run(record="wxyz"),
        "no site 'wxyz'; sites: embed, layers",
    ),
    "no_such_layer": (lambda: run(Zero("layers.7.z")), "no site 'layers.7.z'; did you"),
    "dot_is_no_wildcard": (lambda: run(Zero("layers.0xz")), "no site 'layers.0xz'"),
    "star_stays_in_its_part": (
        lambda: run(Zero("layers.*z")),
        "no site matches 'layers.*z'",
    ),
    "empty": (lambda: run(record=[""]), "no site ''"),
    "site_number": (lambda: run(Zero(3)), "site must be a string, got 3"),
    "record_number": (lambda: run(record=[3]), "by its name or a glob, got int"),
    "in_sweep": (lambda: sweep(Zero("layers.*.zz").each("head")), "no site matches"),
    # Selections.
    "head_out_of_range": (
        lambda: run(Zero(z, head=3)),
        "head 3 is out of range at layers.1.z float32[head=3 seq=4 d_head=2]",
    ),
    "negative_out_of_range": (lambda: run(Zero(z, head=-4)), "head -4 is out of range"),
    "one_of_several": (lambda: run(Zero(z, head=[0, 9])), "head 9 is out of range"),
    "unit_out_of_range": (lambda: run(Zero(z, unit=2)), "unit 2 is out of range at"),
    "pos_out_of_range": (lambda: run(Zero(z, pos=4)), "seq 4 is out of range at"),
    "one_layer_is_too_narrow": (
        lambda: run(Zero("layers.*.z", head=2)),
        "head 2 is out of range at layers.0.z",
    ),
    "pair_out_of_range": (
        lambda: run(Zero("layers.*.z", heads="1:2 0:2")),
        "head 2 is out of range at layers.0.z",
    ),
    "layer_out_of_range": (
        lambda: run(Zero("layers.*.z", layer=2)),
        "layer 2 is out of range: the sites are in layers [0, 1]",
    ),
    "layer_of_another_site": (
        lambda: run(Zero(z, layer=0)),
        "layer 0 is out of range: the sites are in layers [1]",
    ),
    "layer_and_head": (
        lambda: run(Zero("layers.*.z", layer=1, head=3)),
        "head 3 is out of range at layers.1.z",
    ),
    "no_layer": (lambda: run(Zero("embed", layer=0)), "has no axis 'layer'"),
    "no_axis": (
        lambda: run(Zero(z, haed=1)),
        "site layers.1.z float32[head=3 seq=4 d_head=2] has no axis 'haed'; did you "
        "mean 'head'?",
    ),
    "complex_value": (
        lambda: run(Clamp("embed", 2j)),
        "Clamp: complex values at embed float32",
    ),
    "misspelt_keyword": (
        lambda: run(Zero("embed", strengh=0.5)),
        "whole-number indices, got 0.5; did you mean 'strength'?",
    ),
    "no_axis_at_all": (lambda: run(Zero("embed", head=1)), "has no axis 'head'"),
    "empty_selection": (lambda: Zero(z, head=[]), "head=[] selects nothing"),
    "empty_heads": (lambda: Zero(z, heads=""), "heads=[] selects nothing"),
    "float": (lambda: Zero(z, head=1.5), "head= takes whole-number indices, got 1.5"),
    "whole_float": (lambda: Zero(z, head=1.0), "head= takes whole-number indices"),
    "bool": (lambda: Zero(z, head=True), "head= takes whole-number indices, got True"),
    "mask": (lambda: Zero(z, head=np.ones(3, bool)), "takes whole-number indices"),
    "text": (lambda: Zero(z, head="1"), "head= takes whole-number indices, got '1'"),
    "none": (lambda: Zero(z, head=None), "head= takes whole-number indices, got None"),
    "wraps_around": (lambda: Zero(z, head=2**32), "head= is out of range of any axis"),
    "pos_and_seq": (lambda: Zero(z, pos=0, seq=1), "are the same axis; give one"),
    "two_names": (
        lambda: run(Zero("layers.*.z", unit=0, d_head=1)),
        "unit= and d_head= are the same axis of layers.0.z float32[head=2 seq=4 d_head",
    ),
    "two_names_swept": (
        lambda: sweep(Zero(z, d_head=[0]).each("unit")),
        "d_head= and unit= are the same axis of layers.1.z",
    ),
    "two_names_swept_both": (
        lambda: sweep(Zero(z).each("unit", "d_head")),
        "unit= and d_head= are the same axis of layers.1.z",
    ),
    "unit_of_a_number": (
        lambda: opto.run(
            taps(lambda x, tap: tap("a", x, "")),
            jnp.ones(()),
            edits=[Zero("a", unit=0)],
        ),
        "site a float32[] has no axis 'unit'",
    ),
    "heads_and_head": (
        lambda: Zero(z, heads="0:1", head=1),
        "heads= already says which head",
    ),
    "heads_and_layer": (lambda: Zero(z, heads="0:1", layer=1), "says which layer"),
    "heads_one_number": (lambda: Zero(z, heads="3"), "such as '1:3', got '3'"),
    "heads_a_number": (
        lambda: Zero(z, heads=1),
        "every layer that the site selects, write head=1",
    ),
    "heads_word": (lambda: Zero(z, heads="a:b"), "such as '1:3', got 'a:b'"),
    "heads_triple": (lambda: Zero(z, heads=[(0, 1, 2)]), "got (0, 1, 2)"),
    "heads_flat": (lambda: Zero(z, heads=[0, 1]), "such as '1:3', got 0"),
    "heads_float": (lambda: Zero(z, heads=[(1.5, 0)]), "got (1.5, 0)"),
    # Values.
    "too_long": (
        lambda: run(Clamp(z, jnp.ones((3, 4, 5)))),
        "an array of shape (3, 4, 5) does not fit layers.1.z float32[head=3 seq=4",
    ),
    "too_few_axes": (
        lambda: run(Clamp(z, jnp.ones(2))),
        "an array of shape (2,) does not fit layers.1.z",
    ),
    "fits_one_layer_only": (
        lambda: run(Clamp("layers.*.z", jnp.ones((2, 1, 1)))),
        "shape (2, 1, 1) does not fit layers.1.z",
    ),
    "axes_misspelt": (
        lambda: run(Clamp(z, jnp.ones(3), axes="heed")),
        "has no axis 'heed'; did you mean 'head'?",
    ),
    "axes_layer": (
        lambda: run(Clamp("layers.*.z", jnp.ones(2), axes="layer")),
        "has no axis 'layer'",
    ),
    "axes_too_many": (
        lambda: run(Clamp(z, jnp.ones(3), axes="head seq")),
        "axes='head seq' does not fit a value of shape (3,)",
    ),
    "axes_twice": (
        lambda: run(Clamp(z, jnp.ones((3, 3)), axes="head head")),
        "axes='head head' does not fit a value of shape (3, 3)",
    ),
    "axes_too_long": (lambda: run(Clamp(z, jnp.ones(4), axes="head")), "does not fit"),
    "nan": (lambda: Clamp(z, float("nan")), "the value is not finite everywhere"),
    "inf": (
        lambda: Clamp(z, [1.0, -np.inf]),
        "Clamp at 'layers.1.z': the value is not",
    ),
    "overflows": (lambda: Clamp(z, 1e39), "the value is not finite everywhere"),
    # Numbers that JAX, or the site, would store as infinite.
    "patch_overflows": (
        lambda: Patch(z, {z: np.full((3, 4, 2), 1e300)}),
        "Patch: the value at 'layers.1.z' is not finite everywhere as float32",
    ),
    "mean_overflows": (lambda: Mean("a", {"a": [1e300]}), "Mean: the value at 'a' is"),
    "mean_of_none": (
        lambda: Mean("a", of_batch(a=np.zeros((0, 2)))),
        "Mean: the record of 'a' is not of a batch of examples, but has shape (0, 2)",
    ),
    "resample_overflows": (
        lambda: Resample("a", {"a": [1e300, 1.0]}),
        "Resample: the value at 'a' is not finite everywhere",
    ),
    "half": (
        lambda: halves([Patch("a", {"a": np.full(3, 7e4)})]),
        "Patch: 70000 is not finite as float16, the dtype of a",
    ),
    "half_of_a_batch": (
        lambda: halves([Patch("a", {"a": np.full((2, 3), 7e4)})], batch=2),
        "the values of examples: 70000 is not finite as float16, the dtype of a",
    ),
    "half_resampled": (
        lambda: halves([Resample("a", {"a": np.full((2, 3), 7e4)})], batch=2),
        "the values of examples: 70000 is not finite as float16",
    ),
    "infinite_whole_number": (
        lambda: halves([Patch("places", {"places": [0.0, np.inf, 1.0]})]),
        "Patch: inf is out of range of places int32[seq=3]",
    ),
    "whole_number_of_a_batch": (
        lambda: halves([Patch("places", {"places": np.full((2, 3), 1e10)})], batch=2),
        "the values of examples: 1e+10 is out of range of places",
    ),
    # What is no number, or no name.
    "objects": (
        lambda: run(Clamp(z, np.array([1, None]))),
        "the value is a number or an array, got array([1, None], dtype=object)",
    ),
    "input_of_objects": (
        lambda: opto.run(ragged()[0], np.array([[1, None]])),
        "input 0 must hold numbers, got array([[1, None]], dtype=object)",
    ),
    "patch_ragged": (
        lambda: Patch("a", {"a": [[1, 2], [3]]}),
        "Patch: the value at 'a' is a number or an array, got [[1, 2], [3]]",
    ),
    "heads_ragged": (lambda: Zero(z, head=[[1, 2], [3]]), "head= takes whole-number"),
    "mask_ragged": (
        lambda: Zero(z, mask=[[True], [True, False]]),
        "mask= takes an array of booleans, got [[True], [True, False]]",
    ),
    "name_number": (
        lambda: Patch("a", {3: [1.0]}),
        "Patch: the name of a site must be a string, got 3",
    ),
    "picked_number": (
        lambda: of_batch(a=[[1.0]]).pick(3),
        "site must be a string, got 3",
    ),
    "gradient_of_booleans": (
        lambda: gradient("signs"),
        "strength_grad: 'signs' holds bool, which has no gradient",
    ),
    "gradient_of_whole_numbers": (
        lambda: gradient("places"),
        "strength_grad: 'places' holds int32, which has no gradient",
    ),
    "graft_of_other_inputs": (
        lambda: run(opto.Graft(MODELS["transformer"]()[0], until=0)),
        "the model of a graft must take the same inputs, and ExemplarLabelModel does",
    ),
    # Long values.
    "contradiction_of_long_values": (
        lambda: opto.run(
            Halves(),
            jnp.ones(101),
            edits=[Clamp("x", np.zeros(101)), Clamp("x", np.ones(101))],
        ),
        "Clamp('x', value=float32[101]) and Clamp('x', value=float32[101]) contradict",
    ),
    "long_head": (
        lambda: Zero(z, head=np.full(101, 0.5)),
        "head= takes whole-number indices, got float64[101]",
    ),
    "long_edit": (
        lambda: run(np.zeros(101)),
        "edits are opto.Edit values, got float64[101]",
    ),
    "strengths": (lambda: run(Zero(z, strength=[0.5])), "one number, got an array of"),
    "strength_nan": (
        lambda: run(Zero(z, strength=float("nan"))),
        "strength is a finite number, got nan",
    ),
    # Masks.
    "mask_numbers": (
        lambda: Zero(z, mask=[[1, 0]]),
        "mask= is an array of booleans, got int",
    ),
    "mask_of_nothing": (
        lambda: Zero(z, mask=np.zeros((3, 4, 2), bool)),
        "mask= selects nothing",
    ),
    "mask_too_few_axes": (
        lambda: run(Zero(z, mask=np.ones((3, 4), bool))),
        "mask= of shape (3, 4) at layers.1.z float32[head=3 seq=4 d_head=2]; wanted ea",
    ),
    "mask_too_long": (
        lambda: run(Clamp(z, 1, mask=np.ones((3, 1, 3), bool))),
        "mask= of shape (3, 1, 3) at layers.1.z",
    ),
    "mask_of_one_layer": (
        lambda: run(Freeze("layers.*.z", mask=np.ones((3, 1, 1), bool))),
        "mask= of shape (3, 1, 1) at layers.0.z",
    ),
    "mask_of_a_verb": (
        lambda: verbs(Pattern(Uniform(), mask=np.ones((5, 5), bool))),
        "mask= of shape (5, 5) at blocks.0.attn.pattern",
    ),
    # Elementary edits.
    "factor": (
        lambda: Scale(z, np.inf),
        "Scale at 'layers.1.z': the factor is not fin",
    ),
    "factor_axes": (lambda: run(Scale(z, [1, 2], axes="hed")), "did you mean 'head'?"),
    "factor_complex": (lambda: run(Scale(z, 1j)), "Scale: complex values at layers.1"),
    "direction": (lambda: Steer(z, [np.nan]), "Steer at 'layers.1.z': the direction"),
    "direction_long": (
        lambda: run(Steer(z, [1.0, 2.0, 3.0], axes="d_head")),
        "Steer: an array of shape (1, 1, 3) does not fit layers.1.z",
    ),
    "direction_without_axes": (
        lambda: run(Steer(z, [1.0, 2.0])),
        "Steer: an array of shape (2,) does not fit layers.1.z float32[head=3 seq=4 d_",
    ),
    "factor_without_axes": (
        lambda: run(Scale("layers.*.z", np.ones((4, 2)), layer=1)),
        "Scale: an array of shape (4, 2) does not fit layers.0.z",
    ),
    "freeze_site": (lambda: run(Freeze("layers.0.y")), "no site 'layers.0.y'; did you"),
    "freeze_head": (
        lambda: run(Freeze("layers.*.z", head=2)),
        "head 2 is out of range",
    ),
    "freeze_strength": (
        lambda: run(Freeze(z, strength=[1.0, 0.0])),
        "strength is one number, got an array of shape (2,)",
    ),
    "patch_nan": (
        lambda: Patch("*", {"a": [0.0, 1.0], "b": [1.0, np.nan]}),
        "Patch: the value at 'b' contains NaN",
    ),
    "patch_no_record": (
        lambda: Patch("a", np.ones(2)),
        "Patch takes a Record or arrays by site, got ndarray",
    ),
    "patch_not_recorded": (
        lambda: Patch("a.*", of_batch(a=[1.0], b=[1.0])),
        "Patch: no value for 'a.*'; there are values for a, b",
    ),
    "patch_not_all_recorded": (
        lambda: run(Patch("layers.*.z", {z: np.zeros((3, 4, 2))})),
        "Patch: no value for 'layers.0.z'; there are values for layers.1.z",
    ),
    "patch_shape": (
        lambda: run(Patch(z, {z: np.zeros((3, 4, 3))})),
        "Patch: an array of shape (3, 4, 3) does not fit layers.1.z",
    ),
    "patch_axes": (
        lambda: run(Patch(z, {z: np.zeros(2)})),
        "Patch: an array of shape (2,) at layers.1.z float32[head=3 seq=4 d_head=2]; w",
    ),
    "mean_of_one": (
        lambda: Mean("embed", run(record="embed")[1]),
        "Mean: the record of 'embed' is not of a batch of examples",
    ),
    "mean_nan": (
        lambda: Mean("a", of_batch(a=[[np.nan]])),
        "Mean: the value at 'a' contains NaN",
    ),
    "mean_of_whole_numbers": (
        lambda: verbs(Mean("tokens.label", {"tokens.label": np.zeros(3, int)})),
        "Mean: tokens.label int32[exemplar=3] does not hold floating-point numbers",
    ),
    "mean_not_recorded": (
        lambda: Mean("b", of_batch(a=[[1.0]])),
        "no value for 'b'; th",
    ),
    "resample_one": (
        lambda: Resample("a", of_batch(a=[[1.0, 2.0]])),
        "Resample needs two examples or more, got shape (1, 2)",
    ),
    "resample_number": (lambda: Resample("a", {"a": 1.0}), "or more, got shape ()"),
    "resample_for_one": (
        lambda: run(Resample("embed", {"embed": np.zeros((3, 4, 6))})),
        "Resample: an array of shape (3, 4, 6) at embed float32[seq=4 d_model=6]; want",
    ),
    "resample_not_recorded": (
        lambda: Resample("b", of_batch(a=[[1.0]])),
        "value for 'b",
    ),
    # Kinds of patterns, and verbs.
    "weight": (lambda: PreviousToken(1.5), "weight is a number in [0, 1], got 1.5"),
    "weight_negative": (lambda: Induction(-0.1), "a number in [0, 1], got -0.1"),
    "weight_nan": (lambda: Induction(np.nan), "weight is a number in [0, 1], got nan"),
    "weights": (lambda: Induction([0.1, 0.2]), "a number in [0, 1], got [0.1, 0.2]"),
    "cold": (lambda: Match(-0.5), "temperature must be 0 or more and finite, got -0.5"),
    "hot": (lambda: Match(np.inf), "temperature must be 0 or more and finite, got inf"),
    "temperatures": (
        lambda: Match([0.1, 1]),
        "must be 0 or more and finite, got [0.1, 1]",
    ),
    "role": (
        lambda: PreviousToken(queries="labels"),
        "queries names tokens (all, exemplar, label, query), got labels",
    ),
    "no_role": (
        lambda: Uniform(queries=""),
        "queries names tokens (all, exem",
    ),
    "role_number": (
        lambda: Block(keys=3),
        "keys names tokens (all, exemplar,",
    ),
    "role_and_all": (lambda: Block(queries="all query"), "queries names tokens (all,"),
    "kind": (
        lambda: Pattern(Induction),
        "Pattern takes a kind of pattern such as Uniform(), got <class 'icl",
    ),
    "kind_text": (lambda: Pattern("Match()"), "such as Uniform(), got 'Match()'"),
    "pattern_strength": (
        lambda: verbs(Pattern(Match(), strength=np.nan)),
        "strength is a finite number, got nan",
    ),
    "pattern_head": (
        lambda: verbs(Pattern(Match(), heads="0:3")),
        "head 3 is out of range at blocks.0.attn.pattern",
    ),
    "pattern_layer": (
        lambda: verbs(Pattern(Match(), layer=1)),
        "layer 1 is out of ran",
    ),
    "pattern_of_no_attention": (
        lambda: verbs(Pattern(Match(), site="blocks.0.attn.z")),
        "site='blocks.0.attn.z') is for attention from each token to all "
        "tokens or to the first ones, got blocks",
    ),
    "block_nothing": (lambda: Block(), "of all tokens leaves no attention: give"),
    "block_ahead": (lambda: Block(distance=-1), "number of tokens or None, got -1"),
    "block_half": (lambda: Block(distance=0.5), "number of tokens or None, got 0.5"),
    "block_more": (
        lambda: Block(distance=1, strength=1.5),
        "strength is a number in [0, 1], got 1.5",
    ),
    "block_of_no_attention": (
        lambda: verbs(Block(distance=1, site="**.v")),
        "is for attention from each token to all tokens or to the first ones, got "
        "blocks.0.attn.v",
    ),
    "no_tokens_pattern": (
        lambda: run(Pattern(Induction(), heads="0:1")),
        "Pattern(Induction(weight=1.0), heads='0:1') needs the sites "
        "tokens.role, tokens.pair, tokens.label, which this model does not have",
    ),
    "no_tokens_match": (
        lambda: opto.run(Tokens(), jnp.array([1, 1]), edits=[Pattern(Match())]),
        "needs the sites tokens.exemplar, which this model does not have",
    ),
    "no_tokens_roles": (
        lambda: run(Pattern(PreviousToken(queries="label"))),
        "needs the sites tokens.role, which this model does not have",
    ),
    "no_tokens_block": (
        lambda: run(Block(keys="label", site=P)),
        "needs the sites tokens.role, which",
    ),
    "no_tokens_copy": (
        lambda: run(CopyFromPattern(heads="0:0", site=P)),
        "needs the sites tokens.role, tokens.pair, tokens.label, which",
    ),
    "no_tokens_previous": (
        lambda: opto.run(Tokens(), jnp.array([1, 1]), edits=[PerfectPreviousToken()]),
        "needs the sites embed, which this model does not have",
    ),
    "copy_of_all": (
        lambda: verbs(CopyFromPattern()),
        "CopyFromPattern() reads one head, such as heads='1:3', got 3",
    ),
    "copy_of_two": (
        lambda: verbs(CopyFromPattern(heads="0:0 0:2")),
        "CopyFromPattern(heads='0:0 0:2') reads one head, such as heads='1:3', got 2",
    ),
    "copy_of_two_in_jit": (
        lambda: jax.jit(lambda: verbs(CopyFromPattern(layer=0, head=[0, 2]))[0])(),
        "reads one head, such as heads='1:3', got 2",
    ),
    "copy_to_nowhere": (
        lambda: verbs(CopyFromPattern(heads="0:0", logits="logit")),
        "no site 'logit'; did you mean 'logits'?",
    ),
    "copy_to_two": (
        lambda: verbs(CopyFromPattern(heads="0:0", logits="**.out")),
        "logits='**.out' matches blocks.0.attn.out, blocks.0.mlp.out; give one",
    ),
    "copy_edits": (
        lambda: CopyFromPattern(edits=Zero("x")),
        "edits is a sequence of edits, got one: write [Zero('x')]",
    ),
    "copy_edit_wrong": (
        lambda: verbs(CopyFromPattern(heads="0:0", edits=[Zero("embd")])),
        "no site 'embd'; did you mean 'embed'?",
    ),
    "first_layer": (
        lambda: PerfectPreviousToken(0),
        "layer is 1 or more, as layer 0 does the copying, got 0",
    ),
    "half_layer": (lambda: PerfectPreviousToken(1.5), "does the copying, got 1.5"),
    "no_second_layer": (
        lambda: verbs(PerfectPreviousToken()),
        "no site 'blocks.1.resid_pre'; did you mean 'blocks.0.resid_pre'?",
    ),
    "register_function": (
        lambda: opto.register(print),
        "register takes a class of edits or of kinds, got <built-in function print>",
    ),
    "register_class": (lambda: opto.register(int), "of kinds, got <class 'int'>"),
    "register_edit": (
        lambda: opto.register(Zero(z)),
        "of kinds, got Zero('layers.1.z')",
    ),
    "register_selection": (
        lambda: opto.register(opto.At),
        "of kinds, got <class 'opto",
    ),
    # Edits and records.
    "single_edit": (
        lambda: opto.run(*[ragged()[0], *ragged()[1]], edits=Zero(z)),
        "edits is a sequence of edits, got one: write [Zero('layers.1.z')]",
    ),
    "single_edit_visited": (
        lambda: opto.visit(*[ragged()[0], *ragged()[1]], edits=Zero(z)),
        "edits is a sequence of edits, got one",
    ),
    "not_an_edit": (lambda: run("Zero"), "edits are opto.Edit values"),
    "not_an_edit_swept": (lambda: sweep(["Zero"]), "edits are opto.Edit values"),
    "swept_edit": (
        lambda: run(Zero(z).each("head")),
        "(swept ones go to opto.sweep), got Each: Zero('layers.1.z').each('head')",
    ),
    "stacked_edit": (
        lambda: run(opto.stack([Zero(z)])),
        "(swept ones go to opto.sweep), got Stacked: stack([Zero('layers.1.z')])",
    ),
    "swept_lift": (
        lambda: opto.lift(ragged()[0])(*ragged()[1], edits=[Zero(z).each("head")]),
        "go to opto.sweep",
    ),
    "asked_twice": (
        lambda: run(record={z: jnp.sum, "layers.*.z": None}),
        "record asks for 'layers.1.z' twice, with different reducers",
    ),
    "asked_twice_otherwise": (
        lambda: run(record={"layers.*.z": None, z: jnp.sum}),
        "record asks for 'layers.1.z' twice, with different reducers",
    ),
    "reducer": (lambda: run(record={z: "mean"}), "reducer of 'layers.1.z' is not call"),
    "record_none": (lambda: run(record=None), "is a site, several sites or a mapping"),
    "record_int": (lambda: run(record=3), "is a site, several sites or a mapping"),
    # Sweeps.
    "each_nothing": (lambda: Zero(z).each(), "needs the name of an axis"),
    "each_twice": (lambda: Zero(z).each("pos", "seq"), "names an axis twice"),
    "each_misspelt": (lambda: sweep(Zero(z).each("hed")), "did you mean 'head'?"),
    "each_layer": (lambda: sweep(Zero("embed").each("layer")), "has no axis 'layer'"),
    "each_of_pairs": (
        lambda: Zero("layers.*.z", heads="0:1 1:2").each("head"),
        "heads= picks pairs; sweep those with opto.stack",
    ),
    "each_out_of_range": (
        lambda: sweep(Zero(z, head=[0, 3]).each("head")),
        "head 3 is out of range",
    ),
    "nothing_swept": (lambda: sweep(Zero(z)), "no edit is swept"),
    "nothing_swept_at_all": (lambda: sweep([]), "no edit is swept"),
    "fixed_edit_wrong": (
        lambda: sweep([Zero(z).each("head"), Zero(q, head=5)]),
        "head 5 is out of range",
    ),
    "stacked_edit_wrong": (
        lambda: sweep(opto.stack([Zero(q, head=0), Zero(q, head=5)])),
        "head 5 is out of range",
    ),
    "stack_nothing": (lambda: opto.stack([]), "at least one opto.Edit"),
    "stack_one": (lambda: opto.stack(Zero(z)), "takes a list of at least one"),
    "stack_each": (lambda: opto.stack([Zero(z).each("head")]), "takes a list of at"),
    "stack_graft": (
        lambda: opto.stack([Zero(z), opto.Graft(Ragged(jax.random.key(0)), until=0)]),
        "has no strength, so it cannot be off",
    ),
    "chunk_zero": (lambda: sweep(Zero(z).each("head"), chunk=0), "chunk is a positive"),
    "chunk_negative": (lambda: sweep(Zero(z).each("head"), chunk=-1), "None, got -1"),
    "chunk_half": (lambda: sweep(Zero(z).each("head"), chunk=1.5), "None, got 1.5"),
    # Models and inputs.
    "twice": (
        lambda: opto.sites(
            taps(lambda x, t: t("a", x, "i") + t("a", x, "i")), jnp.ones(2)
        ),
        "two values are named 'a'; use tap.scope",
    ),
    "too_few_names": (
        lambda: opto.run(taps(lambda x, t: t("a", x, "i")), jnp.ones((2, 3))),
        "site 'a' has axes 'i', but shape (2, 3)",
    ),
    "name_twice": (
        lambda: opto.run(taps(lambda x, t: t("a", x, "i i")), jnp.ones((2, 2))),
        "axes 'i i', but shape (2, 2); wanted one name for each axis",
    ),
    "tuple_of_axes": (
        lambda: opto.sites(taps(lambda x, t: t("a", x, ("i", "j"))), jnp.ones((2, 3))),
        "site 'a': axes must be names in one string, 'head seq'; got ('i', 'j')",
    ),
    "number": (
        lambda: opto.sites(taps(lambda x, t: x * t("a", 1.0, "")), jnp.ones(2)),
        "site 'a' is not an array of numbers but float",
    ),
    "tree": (
        lambda: opto.sites(taps(lambda x, t: t("a", (x, x), "i")), jnp.ones(2)),
        "site 'a' is not an array of numbers but tuple",
    ),
    "key": (
        lambda: opto.sites(taps(lambda x, t: t("a", x, "")), jax.random.key(0)),
        "site 'a' is not an array of numbers but key<fry>",
    ),
    "no_model": (lambda: opto.run(None), "model must be callable with tap=, got None"),
    "no_tap": (
        lambda: opto.run(eqx.nn.MLP(2, 2, 64, 2, key=jax.random.key(0)), jnp.ones(2)),
        "model must take tap=, got MLP; give it `tap=opto.identity` and call",
    ),
    "no_name": (lambda: run(record=[[]]), "by its name or a glob, got list"),
    "no_table": (
        lambda: opto.check([Zero("a")], None),
        "table is what opto.sites gives, got None",
    ),
    "no_metric": (
        lambda: opto.sweep("x", *ragged()[1], edits=[]),
        "metric is a function of a model's output, got 'x'",
    ),
    "no_text": (lambda: parse(None), "an edit's text must be a string, got None"),
    "frozen": (
        lambda: opto.PathPatch(opto.At("a"), opto.At("b"), {"a": 1.0}, frozen=None),
        "frozen is names of sites, got None",
    ),
    "no_sites": (
        lambda: opto.run(taps(lambda x, t: x), jnp.ones(2), record="a"),
        "no site 'a'",
    ),
    "too_many_inputs": (
        lambda: with_inputs((4, 6), (4,)),
        "expected 1 inputs ('seq d_model'), got 2",
    ),
    "axes_of_inputs": (
        lambda: opto.run(Untupled(), jnp.ones((2, 3))),
        "input_axes must be a tuple with a string for each input, ('seq',); got 'seq'",
    ),
    "no_inputs": (lambda: with_inputs(), "expected 1 inputs ('seq d_model'), got 0"),
    "rank": (
        lambda: with_inputs((6,)),
        "input 0 has axes 'seq d_model', got an array of shape (6,)",
    ),
    "batches": (
        lambda: two_inputs((5, 4, 6), (3, 4)),
        "the inputs' batch axes differ ('seq d': (5,), 'seq': (3,))",
    ),
    "one_batched": (lambda: two_inputs((5, 4, 6), (4,)), "'seq d': (5,), 'seq': ()"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_are_named(name):
    mistake, message = ERRORS[name]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        mistake()
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_a_generator_of_edits_is_not_empty():
    model, inputs = ragged()
    edits = [Zero("layers.*.z")]
    expected = inputs[0]  # Without attention the stream does not change.
    for fn in (opto.run, opto.visit):
        out, _ = fn(model, *inputs, edits=(edit for edit in edits))
        np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("unchecked")
def test_a_numpy_constant_is_a_site():
    model = taps(lambda x, tap: x * tap("c", np.full(2, 3.0), "i"))
    out, record = opto.run(model, jnp.ones(2), record="c", edits=[Zero("c", i=0)])
    np.testing.assert_array_equal(out, [0, 3])
    assert record["c"].dtype == jnp.float32


def test_duplicated_indices_are_harmless():
    once, _ = run(Zero(z, head=[0, 2], pos=1))
    twice, _ = run(Zero(z, head=[2, 0, 0, -1, -3], pos=[1, -3]))
    np.testing.assert_allclose(once, twice, atol=1e-6)
    out, record = run(record=[])
    assert len(record) == 0
    np.testing.assert_array_equal(out, run(record={})[0])


# Texts.

TEXTS = {
    "plain": lambda: Zero("blocks.*.attn.z"),
    "quotes": lambda: Zero("""a'b"c"""),
    "number": lambda: Clamp("x", 0.1),
    "tiny": lambda: Clamp("x", np.float32(1e-30)),
    "denormal": lambda: Clamp("x", np.float32(1e-40)),
    "third": lambda: Clamp("x", np.float32(1 / 3), strength=np.float32(1 / 3)),
    "minus_zero": lambda: Clamp("x", -0.0),
    "big": lambda: Clamp("x", np.finfo(np.float32).max),
    "whole": lambda: Clamp("x", -7),
    "whole_big": lambda: Clamp("x", -(2**31)),
    "flag": lambda: Clamp("x", True),
    "complex": lambda: Clamp("x", 1.5 - 2j),
    "nested": lambda: Clamp("x", [[0.1, -0.0, 1e-30], [-3, 1e20, 7]], axes="seq d"),
    "deep": lambda: Clamp("x", np.arange(-12, 12).reshape(2, 3, 1, 4)),
    "empty": lambda: Clamp("x", np.zeros((2, 0))),
    "bfloat16": lambda: Clamp("x", jnp.array([0.1, 3e38], jnp.bfloat16)),
    "float16": lambda: Clamp("x", jnp.array([0.1, 6e-8], jnp.float16)),
    "axes": lambda: Clamp("x", [1.0, 2.0], axes="head", pos=-1),
    "head": lambda: Zero("x", head=3),
    "many": lambda: Zero("x", unit=[0, -1, 5], layer=2, kv_seq=[1]),
    "heads": lambda: Zero("x", heads=[(0, 1), (1, -2)]),
    "all": lambda: Clamp("x", [1, 2], axes="d", heads="0:1", pos=[0, 1], strength=0.7),
    "off": lambda: Zero("x", strength=0),
    "over": lambda: Zero("x", strength=-1.5),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_reads_back_as_the_edit(name):
    edit = TEXTS[name]()
    text = repr(edit)
    read = parse(f"  {text}\n")
    assert "\n" not in text
    assert repr(read) == text
    assert type(read) is type(edit)
    # Equal site patterns, axis names and selected axes.
    assert jax.tree.structure(read) == jax.tree.structure(edit)
    pairs = zip(jax.tree.leaves(read), jax.tree.leaves(edit), strict=True)
    for ours, expected in pairs:
        assert ours.shape == expected.shape
        if expected.dtype.itemsize < 4 and expected.dtype != bool:
            # A text cannot name these dtypes; the numbers are equal.
            expected = expected.astype(jnp.float32)
        assert ours.dtype == expected.dtype
        assert np.asarray(ours).tobytes() == np.asarray(expected).tobytes()


def test_how_texts_look():
    edit = Clamp("blocks.0.attn.pattern", [[0.5, 1.0]], axes="seq kv_seq", head=[0, 1])
    expected = (
        "Clamp('blocks.0.attn.pattern', value=[[0.5, 1.0]], axes='seq kv_seq', "
        "head=[0, 1])"
    )
    assert repr(edit) == expected
    assert repr(parse("Clamp('x',0.25,head=[2],strength=.5)")) == (
        "Clamp('x', value=0.25, head=2, strength=0.5)"
    )
    assert repr(Zero("x", heads=[(1, 3), (1, 7)])) == "Zero('x', heads='1:3 1:7')"
    assert repr(Zero("x", pos=-1)) == "Zero('x', seq=-1)"
    # Within `jit`, the text can only give shapes.
    shown = []
    jax.jit(lambda v, i: shown.append(repr(Clamp("x", v, head=i))))(jnp.ones(3), 1)
    assert shown == ["Clamp('x', value=float32[3], head=int32[1, 1])"]


BAD_TEXTS = {
    "": "character 1: ",
    "   ": "character 1: ",
    "Zero": "expected an edit such as Zero(",
    "3": "expected an edit such as Zero(",
    "'Zero'": "expected an edit such as Zero(",
    "opto.Zero('x')": "expected an edit such as Zero(",
    "Zero('x'), Zero('y')": "expected an edit such as Zero(",
    "Zero('x').each('head')": "expected an edit such as Zero(",
    "Zero('x')('y')": "expected an edit such as Zero(",
    "lambda: Zero('x')": "expected an edit such as Zero(",
    "Zero('x') if True else 1": "expected an edit such as Zero(",
    "Zeroo('x')": "no edit 'Zeroo'; did you mean 'Zero'?",
    "clamp('x', 1)": "no edit 'clamp'; did you mean 'Clamp'?",
    "Foo('x')": "no edit 'Foo'; known: Clamp, Zero",
    "eval('1')": "no edit 'eval'; known: ",
    "Zero('x'": "character 5: '(' was never closed",
    "Zero('x'))": "character 10: unmatched ')'",
    "Zero('x') foo": "character 11: invalid syntax",
    "Zero('x'); Zero('y')": "character 10: invalid syntax",
    "Zero('x', head=)": "character 1",
    "Zero('x\0')": "null bytes",
    "Zero()": "a required argument: 'site'; the form is Zero(site, *, strength=",
    "Clamp('x')": "required argument: 'value'; the form is Clamp(site, value, *, ",
    "Zero('x', 1)": "too many positional arguments; the form is Zero(site, *, ",
    "Zero('x', site='y')": "multiple values for argument 'site'",
    "Zero('x', head=1, head=2)": "character 19: head= is given twice",
    "Zero('x', **{'head': 1})": "character 13: ** is not allowed here",
    "Zero(*['x'])": "character 6: expected a string, a number or a list",
    "Zero(__import__('os').system('x'))": "character 6: expected a string, a number or",
    "Zero('x', head=[0, exit()])": "character 20: expected a string, a number or",
    "Zero(x)": "character 6: expected a string, a number or a list, got 'x'",
    "Zero(f'{1}')": "character 6: expected a string",
    "Clamp('x', 1 + 1)": "character 12: expected a string, a number or a list",
    "Clamp('x', [i for i in 'abc'])": "character 12: expected a string",
    "Clamp('x', nan)": "character 12: expected a string",
    "Clamp('x', {[1]})": "character 12: expected a string",
    "Clamp('x', 1e999)": "the value is not finite everywhere",
    "Clamp('x', 1e39)": "the value is not finite everywhere",
    "Clamp('x', 99999999999)": "the value is too large, got 99999999999",
    "Clamp('x', [1, [2, 3]])": "the value is a number or an array, got [1, [2, 3]]",
    "Clamp('x', 'abc')": "the value is a number or an array, got 'abc'",
    "Clamp('x', None)": "the value is a number or an array, got None",
    "Zero('x', head=1.5)": "head= takes whole-number indices, got 1.5",
    "Zero('x', head=99999999999)": "head= is out of range of any axis",
    "Zero('x',\n\nhead=[])": "head=[] selects nothing",
    "Zero('x', heads='3')": "heads must be layer:head pairs such as '1:3', got '3'",
    "Zero('x', strength='much')": "strength is a number, got 'much'",
    "Zero('x', strenght=0.5)": "strenght= takes whole-number indices",
    "Zero(5)": "site must be a string, got 5",
    "Clamp('a', [1.0], axes=3)": "axes must be a string, got 3",
    "Zero('x', head=" + "-" * 5000 + "1)": "too deeply nested",
    "Zero('x', head=" + "[" * 5000 + "1)": "too many nested parentheses",
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("text", BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_texts_that_are_no_edits(text):
    with pytest.raises(ValueError, match=re.escape(BAD_TEXTS[text])) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_nothing_is_evaluated(tmp_path):
    """If any part of the text ran, it would leave a file."""
    path = tmp_path / "made"
    for text in (
        f"Zero(open({str(path)!r}, 'w'))",
        f"Zero('x', head=open({str(path)!r}, 'w').close())",
        f"[Zero('x'), open({str(path)!r}, 'w')]",
        f"(lambda: open({str(path)!r}, 'w'))()",
    ):
        with pytest.raises(ValueError, match="expected"):
            parse(text)
    assert not path.exists()


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_keyword_is_an_axis_that_no_site_has():
    edit = parse("Zero('layers.1.z', haed=1)")
    with pytest.raises(ValueError, match="has no axis 'haed'; did you mean 'head'"):
        run(edit)


def test_hint_names_the_nearest_known_name_if_one_is_near():
    known = {"scale": 1, "steer": 2}
    assert opto.hints.did_you_mean("scal", known) == "; did you mean 'scale'?"
    assert opto.hints.did_you_mean("scale", known) == "; did you mean 'scale'?"
    assert opto.hints.did_you_mean("st", known) == ""
    assert opto.hints.did_you_mean("st", known, cutoff=0.4) == "; did you mean 'steer'?"
    assert opto.hints.did_you_mean("scale", []) == ""
