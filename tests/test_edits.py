"""Elementary edits at every site and in batches; records; contradictory edits."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import softmax
from tapped import MODELS

import opto
from icl.edits import CopyFromPattern
from icl.models import exemplar_label_interface, NoPositions, TransformerConfig
from opto import Clamp, Freeze, Mean, Patch, Resample, Scale, Steer, Zero


@functools.cache
def case(name):
    """A model, its inputs, its output and the full record."""
    model, inputs = MODELS[name]()
    return model, inputs, *opto.run(model, *inputs, record="**")


@functools.cache
def transformer():
    config = TransformerConfig(2, 8, 2, mlp_ratio=1.0, positions=NoPositions())
    return config.build(exemplar_label_interface(3, dim=3), key=jax.random.key(0))


def sequences(*shape, seed=0):
    """Exemplars and labels; one label in the context is the query's."""
    rng = np.random.default_rng(seed)
    examples = rng.normal(size=(*shape, 3, 3)).astype(np.float32)
    labels = np.broadcast_to([2, 1, 2], (*shape, 3))
    return jnp.asarray(examples), jnp.asarray(labels)


class Doubling(eqx.Module):
    """Two sites, `x` and `twice`; compiles very fast."""

    input_axes = ("i",)

    def __call__(self, x, *, tap=opto.identity):
        x = tap("x", x, "i")
        return x, tap("twice", 2 * x, "i")


def assert_same(ours, expected, atol=0.0):
    """Asserts equal trees of arrays, bitwise if `atol` is 0."""
    assert jax.tree.structure(ours) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=atol, atol=atol)


# Edits that change nothing, at every site.


def others(record):
    """Other values of the same dtypes."""
    return {k: ~v if v.dtype == bool else v + 1 for k, v in record.items()}


# By kind: edits of all sites at once that change no value.
NOTHINGS = {
    "patch": lambda record, zero: [Patch("**", record)],
    "freeze": lambda record, zero: [Freeze("**")],
    "strength_0": lambda record, zero: [
        Zero("**", strength=zero),
        Patch("**", others(record), strength=zero),
    ],
}

MORE_NOTHINGS = {
    "freeze_constants": lambda record, zero: [Freeze("**", stop_gradient=True)],
    "relative": lambda record, zero: [
        Scale("**", 1),
        Steer("**", 0),
        Clamp("**", 3, strength=zero),
        Scale("**", 3, strength=zero),
        Steer("**", 1, strength=zero),
        *(
            Mean(site, others({site: value}), strength=zero)
            for site, value in record.items()
            if value.dtype == jnp.float32
        ),
    ],
}


@pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_nothing_to_the_bit(name):
    model, inputs = MODELS[name]()
    with jax.disable_jit():
        out = model(*inputs)
        _, record = opto.visit(model, *inputs, record="**")
        for edits in NOTHINGS.values():
            visit = lambda zero, edits=edits: opto.visit(
                model, *inputs, record="**", edits=edits(record, zero)
            )
            # A known strength of 0 would be refused.
            ours = jax.tree.map(lambda x: x[0], jax.vmap(visit)(jnp.zeros(1)))
            assert_same((ours[0], dict(ours[1])), (out, dict(record)))


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_nothing_compiled(name):
    """Equal up to rounding, also at sites that are computed only on request."""
    model, inputs, out, record = case(name)
    lazy = [site for site in record if site.split(".")[-1] in ("result", "k_in")]

    @jax.jit
    def edited(record, zero):
        kinds = (NOTHINGS | MORE_NOTHINGS).values()
        visit = functools.partial(opto.visit, model, *inputs)
        alone = [[Patch(site, record), Freeze(site, strength=0.5)] for site in lazy]
        return [visit(record="**", edits=edits(record, zero)) for edits in kinds] + [
            visit(edits=edits) for edits in alone
        ]

    for ours, seen in edited(dict(record), 0.0):
        expected = {site: record[site] for site in seen}
        assert_same((ours, dict(seen)), (out, expected), atol=1e-6)


def test_a_batch_patched_with_itself():
    """Also patched with other examples' values at strength 0."""
    model, inputs = transformer(), sequences(4)
    out, record = opto.run(model, *inputs, record="**")
    edits = lambda zero: [Patch("**", record), Resample("**", record, strength=zero)]
    run = jax.jit(lambda zero: opto.run(model, *inputs, edits=edits(zero))[0])
    assert_same(run(0.0), out, atol=1e-6)
    with jax.disable_jit():
        x = jnp.arange(12.0).reshape(4, 3) / 7
        out, record = opto.run(Doubling(), x, record="*")
        with pytest.warns(opto.NoEffectWarning):
            assert_same(opto.run(Doubling(), x, edits=[Patch("*", record)])[0], out)


# The effects of elementary edits, in NumPy.


def test_scaled_scores_are_a_temperature():
    model, inputs = transformer(), sequences()
    temperature = np.array([0.5, 3.0])
    by_head = [
        Scale("blocks.0.attn.scores", 1 / temperature, axes="head"),
        Scale("blocks.1.attn.scores", 1 / 7, head=1, strength=1.0),
    ]
    sites = ["**.scores", "**.pattern"]
    _, record = opto.run(model, *inputs, record=sites, edits=by_head)
    scores = (
        recorded()["blocks.0.attn.scores"].astype(float) / temperature[:, None, None]
    )
    np.testing.assert_allclose(
        record["blocks.0.attn.pattern"], softmax(scores), atol=1e-6
    )
    # The record has the edited scores; head 1's were seven times as large before.
    edited = record["blocks.1.attn.scores"].astype(float)
    np.testing.assert_allclose(
        record["blocks.1.attn.pattern"], softmax(edited), atol=1e-6
    )
    sharper = np.where(edited > -1e18, 7 * edited, -1e20)[1]
    assert np.abs(softmax(sharper) - softmax(edited[1])).max() > 0.05


def test_single_units_of_a_mask():
    model, inputs = transformer(), sequences()
    mask = np.zeros((5, 8), bool)
    mask[[0, 3, 3], [7, 0, 2]] = True
    edits = [
        Clamp("blocks.0.mlp.post", 0.25, mask=mask),
        Zero("blocks.*.mlp.post", mask=mask, layer=1, pos=3),
        Steer("embed", 2.0, mask=mask[:, :1]),
    ]
    sites, before = ["embed", "**.post"], recorded()
    _, after = opto.run(model, *inputs, record=sites, edits=edits)
    expected = np.where(mask[:, :1], before["embed"] + 2, before["embed"])
    np.testing.assert_allclose(after["embed"], expected, atol=1e-6)
    np.testing.assert_array_equal(after["blocks.0.mlp.post"] == 0.25, mask)
    zeros = mask & (np.arange(5) == 3)[:, None]
    np.testing.assert_array_equal(after["blocks.1.mlp.post"] == 0, zeros)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_resample_leaves_no_example_its_own(count):
    """The shuffle is the same at both sites: `twice` stays twice `x`."""
    x = jnp.arange(3 * count, dtype=float).reshape(count, 3)
    model = Doubling()
    _, record = opto.run(model, x, record="*")
    orders = set()
    for seed in (0, 1, 2, 3):
        edits = [Resample("*", record, seed=seed)]
        out, twice = opto.run(model, x, edits=edits)[0]
        np.testing.assert_array_equal(twice, 2 * out)
        order = (out[:, 0] / 3).astype(int)
        np.testing.assert_array_equal(out, x[order])
        assert sorted(order.tolist()) == list(range(count))
        assert not np.any(order == np.arange(count))
        again, _ = opto.run(model, x, edits=[Resample("*", record, seed=seed)])[0]
        np.testing.assert_array_equal(again, out)
        # The text stores the values after the shuffle.
        read = opto.parse(repr(edits[0]))
        np.testing.assert_array_equal(opto.run(model, x, edits=[read])[0][0], out)
        orders.add(tuple(order.tolist()))
    assert len(orders) == 1 if count == 2 else len(orders) > 1


def test_resample_of_two_batch_axes():
    x = jnp.arange(24.0).reshape(4, 2, 3)
    _, record = opto.run(Doubling(), x, record="x")
    (out, _), _ = opto.run(Doubling(), x, edits=[Resample("x", record, i=[0, 2])])
    np.testing.assert_array_equal(out[..., 1], x[..., 1])
    moved = out[..., 0] != x[..., 0]
    assert np.all(moved)
    assert set(np.ravel(out[..., [0, 2]])) == set(np.ravel(x[..., [0, 2]]))


@pytest.mark.parametrize("shape", [(5,), (3, 2), (1, 1)])
@pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")  # A batch of one.
def test_mean_of_a_batch(shape):
    x = jax.random.normal(jax.random.key(0), (*shape, 3))
    _, record = opto.run(Doubling(), x, record="x")
    (out, _), _ = opto.run(Doubling(), x, edits=[Mean("x", record, i=[1, 2])])
    mean = np.asarray(x, float).reshape(-1, 3).mean(0)
    expected = np.where([True, False, False], x, mean)
    np.testing.assert_allclose(out, expected, atol=1e-6)


# Values with one entry for each example.


def test_a_batch_of_values_goes_with_the_examples():
    """Also in edits within edits."""
    model = other = transformer()
    inputs, source = sequences(2, 2), sequences(2, 2, seed=1)
    site = "blocks.0.resid_post"
    _, record = opto.run(model, *source, record=[site, "embed"])

    def edits(record):
        return {
            "patch": [Patch(site, record, pos=[0, -1], strength=0.7)],
            "swapped": [Patch("embed", record), opto.Graft(other, from_=1)],
            "copy": [
                CopyFromPattern(heads="1:0", edits=[Patch("embed", record, pos=2)])
            ],
        }

    @eqx.filter_jit
    def alone(inputs, record):
        return {
            k: opto.toolkit.lift(model)(*inputs, edits=e)
            for k, e in edits(record).items()
        }

    ours = {k: opto.run(model, *inputs, edits=e)[0] for k, e in edits(record).items()}
    for i in np.ndindex(2, 2):
        expected = alone([x[i] for x in inputs], {k: v[i] for k, v in record.items()})
        assert_same({k: v[i] for k, v in ours.items()}, expected, atol=1e-5)
    plain, _ = opto.run(model, *inputs)
    assert all(np.abs(v - plain).max() > 1e-3 for v in ours.values())


def test_values_of_one_example_are_for_all():
    x, one = jnp.zeros((4, 2, 3)), jnp.arange(3.0)
    (out, _), _ = opto.run(Doubling(), x, edits=[Patch("x", {"x": one})])
    np.testing.assert_array_equal(out, np.broadcast_to(one, x.shape))
    _, record = opto.run(Doubling(), one, record="*")
    (out, twice), _ = opto.run(Doubling(), x, edits=[Patch("*", record, i=[1])])
    np.testing.assert_array_equal(out[3, 1], [0, 1, 0])
    np.testing.assert_array_equal(twice[3, 1], [0, 2, 0])


X = np.ones((4, 3))

MISFITS = {
    "another_batch": (X, np.ones((5, 3)), "have batch shape (5,), but the inputs"),
    "one_axis_for_two": (X[None], np.ones((4, 3)), "wanted values of one example"),
    "a_batch_for_one": (X[0], np.ones((4, 3)), "wanted values of one example or, in"),
    "too_long": (X, np.ones((4, 5)), "an array of shape (5,) does not fit x"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_values_that_do_not_go_with_the_examples(name):
    x, values, message = MISFITS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        opto.run(Doubling(), x, edits=[Patch("x", {"x": values})])


# Records.


@functools.cache
def recorded(*shape):
    return opto.run(transformer(), *sequences(*shape), record="**")[1]


def test_pick_by_the_names_of_axes():
    A = (...,)
    with_two_batch_axes = jax.tree.map(lambda x: x[None], recorded(3))
    for record in (recorded(), recorded(3), with_two_batch_axes):
        z = [record[f"blocks.{i}.attn.z"] for i in range(2)]
        pattern = record["blocks.1.attn.pattern"]
        picks = [
            (record.pick("blocks.1.attn.z"), z[1]),
            (record.pick("attn.z"), np.stack(z)),
            (record.pick("blocks.*.attn.z", layer=0), z[0]),
            (record.pick("z", layer=[1, 0]), np.stack(z[::-1])),
            (record.pick("z", layer=[1], head=0), z[1][None][*A, 0, :, :]),
            (record.pick("attn.z", pos=-1), np.stack(z)[*A, -1, :]),
            (record.pick("attn.z", layer=1, unit=[-1, 0]), z[1][*A, [-1, 0]]),
            (record.pick("pattern", layer=1, head=1), pattern[*A, 1, :, :]),
            (
                record.pick("pattern", layer=1, head=[1, 0], seq=-1, kv_seq=[0, 2]),
                pattern[*A, [1, 0], -1, :][*A, [0, 2]],
            ),
            (record.pick("logits", pos=[0], label=2), record["logits"][*A, [0], 2]),
        ]
        for ours, expected in picks:
            np.testing.assert_array_equal(ours, expected)


def test_pick_by_an_axis_that_is_called_layer():
    _, _, _, record = case("mlp")
    np.testing.assert_array_equal(
        record.pick("hiddens", layer=-1, unit=[2]), record["hiddens"][-1, [2]]
    )


PICKS = {
    "twice": (dict(site="attn.z", pos=1, seq=2), "pos and seq are the same axis of"),
    "fraction": (dict(site="attn.z", pos=1.5), "pos= takes whole-number indices"),
    "axis": (dict(site="attn.z", haed=0), "no axis 'haed'; did you mean 'head'?"),
    "range": (dict(site="attn.z", head=2), "head 2 is out of range at blocks.0.attn.z"),
    "layer": (
        dict(site="attn.z", layer=2),
        "no record of 'attn.z' in layer=2",
    ),
    "no_layer": (
        dict(site="embed", layer=0),
        "no record of 'embed' in layer=0",
    ),
    "site": (dict(site="attn.zz"), "no record of 'attn.zz'; recorded: tokens.exemplar"),
    "shapes": (dict(site="blocks.0.*.*"), "differ in shape: (5,), (5, 8), (2, 5, 8), "),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", PICKS)
def test_picks_that_there_are_not(name):
    where, message = PICKS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        recorded().pick(**where)


def test_reduced_values_have_no_names_of_axes():
    model, inputs = transformer(), sequences(3)
    reducers = {"**.pattern": lambda p: p[:, -1], "embed": None}
    _, record = opto.run(model, *inputs, record=reducers)
    assert record.axes_of("embed") == ("seq", "d_model")
    assert record.axes_of("blocks.0.attn.pattern") is None
    assert record.axes_of("nowhere") is None
    stacked = record.pick("pattern")
    assert stacked.shape == (2, 3, 2, 5)
    whole = recorded(3)["blocks.1.attn.pattern"][:, :, -1]
    np.testing.assert_allclose(stacked[1], whole, rtol=1e-5)
    with pytest.raises(ValueError, match="pattern' was reduced, so its axes have no"):
        record.pick("pattern", layer=0, head=1)
    with pytest.raises(ValueError, match="'blocks.0.attn.pattern' is not of a batch"):
        Mean("blocks.*.attn.pattern", record)


def test_records_as_notebooks_show_them():
    record = recorded(3)
    shown = record._repr_html_()
    assert all(f"<code>{name}</code>" in shown for name in record)
    assert shown.count("<tr>") == len(record) + 1
    # Scores and patterns of two heads in each of two layers.
    assert shown.count("<img") == shown.count("data:image/png;base64") == 8
    assert "float32[batch=3 head=2 seq=5 kv_seq=5]" in shown
    assert "int32[batch=3 exemplar=3]" in shown
    nothing = jax.tree.map(lambda x: x[:0], record)
    assert "batch=0 head=2" in nothing._repr_html_()
    nans = jax.tree.map(lambda x: x * np.nan, recorded()["blocks.0.attn.pattern"])
    axes = (("blocks.<p>", ("head", "seq", "kv_seq")),)
    shown = opto.toolkit.Record({"blocks.<p>": nans}, axes)._repr_html_()
    assert shown.count("<img") == 2
    assert "<code>blocks.&lt;p&gt;</code>" in shown
    reducer = {"x": lambda x: {"sum": x.sum(), "sign": x > 0}}
    _, reduced = opto.run(Doubling(), X, record=reducer)
    assert "bool[4, 3], float32[4]" in reduced._repr_html_()
    _, words = opto.run(Doubling(), X[0], record={"x": lambda x: "a text"})
    assert repr(words) == "x  str"
    assert "<td>str</td>" in words._repr_html_()


def test_records_are_in_the_order_of_computation():
    """Also with more than ten layers, which JAX sorts as text."""

    def model(x, tap=opto.identity):
        for i in range(12):
            x = tap.scope(f"layers.{i}")("x", x + 1, "i")
        return x

    _, record = opto.run(model, jnp.zeros(1), record="**")
    assert list(record) == [f"layers.{i}.x" for i in range(12)]
    np.testing.assert_array_equal(record.pick("x")[:, 0], np.arange(1, 13))
    doubled = jax.tree.map(lambda x: 2 * x, record)
    np.testing.assert_array_equal(doubled.pick("x", i=0), 2 * np.arange(1, 13))


# Edits that contradict each other.

one = lambda: Clamp("x", 1.0)
first = np.array([True, False, False])

CONTRADICTIONS = {
    "values": (
        lambda: [Clamp("x", 1.0, i=[0, 1]), Clamp("x", 2.0, i=1)],
        "Clamp('x', value=1.0, i=[0, 1]) and Clamp('x', value=2.0, i=1) contradict: "
        "both set i=1 of x float32[i=3]",
    ),
    "zero": (
        lambda: [one(), Zero("x", i=-1)],
        "Zero('x', i=-1) contradict: both set i=2 of x",
    ),
    "globs": (
        lambda: [Clamp("*", 1.0), Clamp("twice", 2.0, i=1)],
        "both set i=1 of twice",
    ),
    "mask": (
        lambda: [Zero("x", mask=first), Clamp("x", 1, i=[0])],
        "both set i=0 of x",
    ),
    "arrays": (
        lambda: [Clamp("x", [1.0, 2.0, 3.0]), Clamp("x", [1.0, 5.0, 4.0], axes="i")],
        "both set i=1 of x",
    ),
    "equal": (lambda: [one(), Clamp("x", 1, i=2)], None),
    "zero_is_equal": (
        lambda: [Zero("x"), Clamp("x", -0.0, i=2), Clamp("twice", 1.0)],
        None,
    ),
    "disjoint": (lambda: [Clamp("x", 1.0, i=0), Zero("x", i=[1, 2])], None),
    "weak": (lambda: [one(), Clamp("x", 2.0, strength=0.5)], None),
    "scaled": (lambda: [one(), Scale("x", 2.0), Steer("x", 1.0)], None),
    "patched": (lambda: [one(), Patch("x", {"x": jnp.zeros(3)})], None),
}


@pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")
@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("where", ["run", "jit", "sweep"])
def test_contradictions(name, where):
    """They are found before the program runs, also within the user's own `jit`."""
    make, message = CONTRADICTIONS[name]
    edits, x = make(), jnp.full(3, 7.0)
    call = {
        "run": lambda: opto.run(Doubling(), x, edits=edits)[0],
        "jit": lambda: jax.jit(lambda x: opto.toolkit.lift(Doubling())(x, edits=edits))(
            x
        ),
        "sweep": lambda: opto.sweep(
            lambda out, x: out[0].sum(),
            *(Doubling(), x),
            edits=[*edits, Steer("x", 0).each("i")],
        ),
    }[where]
    if message is None:
        call()
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_what_is_not_known_yet_does_not_contradict():
    """The later edit wins, as in every other list."""
    x, known = jnp.ones(3), one()
    run = lambda v: opto.toolkit.lift(Doubling())(x, edits=[known, Clamp("x", v, i=1)])[
        0
    ]
    np.testing.assert_array_equal(jax.jit(run)(2.0), [1, 2, 1])
    np.testing.assert_array_equal(jax.vmap(run)(jnp.arange(2.0))[:, 1], [0, 1])


class Narrow(eqx.Module):
    """Sites of narrow dtypes."""

    input_axes = ("i",)

    def __call__(self, x, *, tap=opto.identity):
        half = tap("half", x.astype(jnp.float16), "i")
        return half, tap("small", x.astype(jnp.int8), "i"), tap("flag", x > 0, "i")


def test_integers_are_neither_cut_nor_wrapped_around():
    inputs = np.arange(3, dtype=np.float32)
    for value in (128, -129, 300.0, 0.5):
        wrong = [Clamp("small", value), Patch("small", {"small": [0.0, value, 0.0]})]
        for edit in wrong:
            with pytest.raises(
                ValueError, match=f"int8 cannot hold {value:g} at small"
            ):
                opto.run(Narrow(), inputs, edits=[edit])
    edits = [Clamp("small", -128), Clamp("flag", True)]
    (_, small, flag), _ = opto.run(Narrow(), inputs, edits=edits)
    assert small.tolist() == [-128] * 3
    assert flag.all()


def test_scores_that_a_model_masks_stay_infinite():
    record = {"half": jnp.array([0.0, -jnp.inf, 1.0])}
    (out, *_), _ = opto.run(Narrow(), np.arange(3.0), edits=[Patch("half", record)])
    assert np.isneginf(out[1])
