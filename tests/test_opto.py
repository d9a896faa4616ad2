"""Taps, sites, runs, edits and selections, on the models in tapped.py."""

import functools
import pickle
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from tapped import Count, Counted, EDITS, MODELS, Negate, Plain, Ragged

import opto


SITES = {"mlp": "hiddens", "cnn": "gated", "ragged": "layers.1.z"}


@functools.cache
def case(name):
    """A model, its inputs, output and full record; shared by all tests."""
    model, inputs = MODELS[name]()
    return model, inputs, *opto.run(model, *inputs, record="**")


def assert_same(ours, expected, atol=0.0):
    """Asserts equal trees of arrays and dtypes, bitwise if `atol` is 0."""
    assert jax.tree.structure(ours) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, atol=atol, rtol=atol)


def differ(ours, expected, atol=1e-4):
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True)
    return any(np.any(np.abs(1.0 * a - 1.0 * b) > atol) for a, b in pairs)


# No request, no cost.


def lowered(fn, inputs):
    def program(*inputs):
        return fn(*inputs)

    return jax.jit(program).lower(*inputs)


def instructions(program):
    return len(re.findall(r"^\s+(ROOT )?%?[\w.-]+ = ", program.as_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ["mlp", "cnn", "ragged"])
def test_no_request_compiles_to_the_bare_model(name):
    model, inputs = MODELS[name]()
    bare = lowered(lambda *xs: model(*xs, tap=Plain()), inputs)
    assert lowered(model, inputs).as_text() == bare.as_text()
    quiet = lowered(lambda *xs: opto.visit(model, *xs)[0], inputs)
    assert quiet.as_text() == bare.as_text()
    sites = list(opto.sites(model, *inputs))
    assert len(sites) > 6
    dropped = lambda *xs: opto.visit(model, *xs, record=sites)[0]
    assert lowered(dropped, inputs).as_text() == bare.as_text()
    # `run` is a program within the program, so compare the compiled programs.
    ran = lowered(lambda *xs: opto.run(model, *xs, record=sites)[0], inputs)
    bare_program, ran_program = bare.compile(), ran.compile()
    assert instructions(bare_program) > 10
    assert instructions(ran_program) == instructions(bare_program)
    assert_same(ran_program(*inputs), bare_program(*inputs))
    edited = lambda *xs: opto.visit(model, *xs, edits=[opto.Zero(sites[0])])[0]
    assert lowered(edited, inputs).as_text() != bare.as_text()


# Every site of every model can be edited. (test_edits.py and test_kinds.py: an edit
# to the recorded value is nothing.)


def another(value, seed=0):
    """Other values of the same dtype; more than a shift, which softmax ignores."""
    if value.dtype == bool:
        return ~value
    if jnp.issubdtype(value.dtype, jnp.integer):
        return value + 1
    return value + np.random.default_rng(seed).normal(size=value.shape)


@pytest.mark.parametrize("name", MODELS)
def test_clamp_to_another_value_has_an_effect(name):
    """At every site that something reads."""
    model, inputs, out, record = case(name)
    sites = opto.sites(model, *inputs)
    assert sites.unread == ({"peak"} if name == "cnn" else set())
    names = list(sites)
    values = {site: another(record[site]) for site in names}

    @jax.jit
    def clamped(values):
        edits = {site: [opto.Clamp(site, values[site])] for site in names}
        return {
            site: opto.visit(model, *inputs, record=names[i:], edits=edits[site])
            for i, site in enumerate(names)
        }

    changed = clamped(values)
    for i, site in enumerate(names):
        ours, rest = changed[site]
        np.testing.assert_allclose(rest[site], values[site], 1e-6, 1e-6)
        later = names[i + 1 :]
        before = [out, *(record[name] for name in later)]
        after = [ours, *(rest[name] for name in later)]
        assert differ(after, before) == (site not in sites.unread), site


# The effect of an edit, by its formula.


@pytest.mark.parametrize("name", ["mlp", "ragged"])
def test_edits_equal_the_formula(name):
    model, inputs, _, record = case(name)
    site = opto.sites(model, *inputs)[SITES[name]]
    value = np.asarray(record[site.name])

    @jax.jit
    def edited(strength):
        edits = {e: EDITS[e].make(site, strength=strength) for e in EDITS}
        visit = functools.partial(opto.visit, model, *inputs, record=site.name)
        return {e: visit(edits=[edit])[1][site.name] for e, edit in edits.items()}

    for strength in (0.0, 0.3, 1.0, 1.5, -0.2):
        for edit, ours in edited(strength).items():
            mask = EDITS[edit].mask(value.shape)
            assert mask.any()
            blend = (1 - strength) * value.astype(float)
            blend += strength * EDITS[edit].target(value)
            expected = np.where(mask, blend, value)
            np.testing.assert_allclose(ours, expected, 1e-6, 1e-6, err_msg=edit)


@pytest.mark.parametrize("edit", EDITS)
def test_strengths_0_and_1_to_the_bit(edit):
    value = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    site = opto.sites(only("head seq d_head"), value)["x"]

    def at(strength):
        edits = [EDITS[edit].make(site, strength=strength)]
        return opto.visit(only("head seq d_head"), jnp.asarray(value), edits=edits)[0]

    with jax.disable_jit():
        off, on = jax.vmap(at)(jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(off, value)
    target, mask = EDITS[edit].target(value), EDITS[edit].mask(value.shape)
    np.testing.assert_array_equal(on, np.where(mask, target, value))


def only(site):
    """A model with one site, `x`, with these axes."""
    return lambda x, tap=opto.identity: tap("x", x, site)


def test_order_of_edits_is_the_order_given():
    x = jnp.arange(4.0)
    first, half = opto.Clamp("x", 2.0, i=[0, 1]), opto.Clamp("x", -6.0, strength=0.5)
    out, _ = opto.run(only("i"), x, edits=[first, half])
    np.testing.assert_array_equal(out, [-2, -2, -2, -1.5])
    out, _ = opto.run(only("i"), x, edits=[half, first])
    np.testing.assert_array_equal(out, [2, 2, -2, -1.5])
    # Each edit gets the value that the edit before it made.
    out, _ = opto.run(only("i"), x, edits=[opto.Clamp("x", 2.0), Negate("x", i=1)])
    np.testing.assert_array_equal(out, [2, -2, 2, 2])


def test_a_glob_edits_all_its_sites():
    model, inputs, _, _ = case("ragged")
    # Head 2 exists only in layer 1, and the selection names only layer 1.
    edits = [opto.Zero("layers.*.z"), opto.Clamp("**.q", 2.0, layer=1, head=2)]
    _, record = opto.run(model, *inputs, record="**", edits=edits)
    assert not np.any(record["layers.0.z"])
    assert not np.any(record["layers.1.z"])
    assert (record["layers.1.q"] == 2).all((1, 2)).tolist() == [False, False, True]
    assert not np.any(record["layers.0.q"] == 2)


# Selections, against masks by hand.

H, S, T = 3, 4, 4
A = slice(None)

SELECTIONS = {
    "head": (dict(head=1), {1: [(1, A, A)]}),
    "head_negative": (dict(head=-1), {1: [(2, A, A)]}),
    "twice": (dict(head=[2, 2, -1]), {1: [(2, A, A)]}),
    "pos": (dict(pos=-1), {1: [(A, S - 1, A)]}),
    "seq": (dict(seq=[0, -2]), {1: [(A, 0, A), (A, S - 2, A)]}),
    "kv_seq": (dict(kv_seq=1), {1: [(A, A, 1)]}),
    "unit": (dict(unit=-3), {1: [(A, A, T - 3)]}),
    "head_and_pos": (dict(head=[0, 2], pos=3), {1: [(0, 3, A), (2, 3, A)]}),
    "all_three": (dict(head=2, seq=0, unit=[0, 3]), {1: [(2, 0, 0), (2, 0, 3)]}),
    "layer": (dict(layer=0), {0: [(A, A, A)]}),
    "layers": (dict(layer=[0, 1], head=1), {0: [(1, A, A)], 1: [(1, A, A)]}),
    "pairs": (dict(heads="0:1 1:2"), {0: [(1, A, A)], 1: [(2, A, A)]}),
    "pairs_list": (dict(heads=[(0, -1), (1, -3)]), {0: [(1, A, A)], 1: [(0, A, A)]}),
    "pairs_and_pos": (dict(heads="1:2 1:0", pos=0), {1: [(2, 0, A), (0, 0, A)]}),
}


def patterns(x, tap=opto.identity):
    """Attention patterns of two layers, with two and three heads."""
    shapes = ((2, S, T), (H, S, T))
    return [
        tap.scope(f"layers.{i}")("pattern", jnp.zeros(shape), "head seq kv_seq")
        for i, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections(name):
    keywords, chosen = SELECTIONS[name]
    glob = "layers.1.pattern" if {*chosen} == {1} else "layers.*.pattern"
    masks = [np.zeros((2, S, T), bool), np.zeros((3, S, T), bool)]
    for layer, entries in chosen.items():
        for entry in entries:
            masks[layer][entry] = True
    with jax.disable_jit():
        edits = [opto.Clamp(glob, 1.0, **keywords)]
        out, _ = opto.run(patterns, jnp.zeros(()), edits=edits)
    for ours, mask in zip(out, masks, strict=True):
        np.testing.assert_array_equal(ours, mask)


def test_a_site_with_an_axis_layer():
    """There, `layer` is an ordinary axis, and negative indices work."""
    edits = [opto.Clamp("x", 99.0, layer=-1, unit=[0, 3])]
    out, _ = opto.run(only("layer hidden"), jnp.zeros((3, 4)), edits=edits)
    np.testing.assert_array_equal(out, [[0] * 4, [0] * 4, [99, 0, 0, 99]])


def test_an_axis_of_that_very_name_comes_first():
    """`unit` and `pos` are aliases only if no axis has that name."""
    model, x = only("unit pos"), jnp.ones((2, 2))
    for axis, expected in (("unit", [[0, 0], [1, 1]]), ("pos", [[0, 1], [0, 1]])):
        out, _ = opto.run(model, x, edits=[opto.Zero("x", **{axis: 0})])
        np.testing.assert_array_equal(out, expected)


def test_ablated_head_of_the_transformer_equals_zeroed_weights():
    model, inputs, _, _ = case("transformer")
    where = lambda m: m.blocks[0].attn.output.weight
    bare = eqx.filter_jit(lambda model: model(*inputs))
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)  # d_model is 3 heads times 4.
        expected = bare(eqx.tree_at(where, model, where(model).at[:, part].set(0)))
        for site in ("z", "result"):
            edit = opto.Zero(f"blocks.0.attn.{site}", head=head)
            out, _ = opto.run(model, *inputs, edits=[edit])
            np.testing.assert_allclose(out, expected, atol=1e-5)


# Values and dtypes.


def test_axes_in_any_order():
    x = jnp.zeros((2, 3, 4))
    value = np.arange(24.0).reshape(2, 3, 4)
    for axes, part, full in (
        ("c a b", value.transpose(2, 0, 1), value),
        ("b c a", value.transpose(1, 2, 0), value),
        ("b", value[0, :, 0], value[:1, :, :1]),
        ("c b", value[1].T, value[1:2]),
        ("c a", value[:, 2].T, value[:, 2:]),
    ):
        edit = opto.Clamp("x", part, axes=axes)
        out, _ = opto.run(only("a b c"), x, edits=[edit])
        np.testing.assert_array_equal(out, np.broadcast_to(full, x.shape))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_values_take_the_dtype_of_the_site(dtype):
    with jax.enable_x64(dtype == "float64"):
        x = jnp.full(3, 1 / 3, dtype)
        edits = [
            opto.Clamp("x", 0.1, strength=0.3),
            opto.Clamp("x", [1, 2, 3], axes="i", i=[0, 1]),
        ]
        for edit, expected in zip(edits, (0.7 / 3 + 0.03, [1, 2, 1 / 3]), strict=True):
            out, _ = opto.run(only("i"), x, edits=[edit])
            assert out.dtype == dtype
            rtol = float(jnp.finfo(dtype).eps)
            np.testing.assert_allclose(out.astype(float), expected, rtol=rtol)


def test_whole_numbers_are_exact():
    """float32 cannot hold 2**24 + 1."""
    x = jnp.array([16777217, 5, -7])
    run = lambda edit: opto.run(only("i"), x, edits=[edit])[0]
    off = jax.jit(lambda zero: run(opto.Clamp("x", 3, strength=zero)))
    np.testing.assert_array_equal(off(0.0), x)
    np.testing.assert_array_equal(run(opto.Clamp("x", 16777219)), [16777219] * 3)
    np.testing.assert_array_equal(run(opto.Zero("x", i=1)), [16777217, 0, -7])
    assert run(opto.Clamp("x", 3)).dtype == x.dtype
    flags = jnp.array([True, False])
    out, _ = opto.run(only("i"), flags, edits=[opto.Clamp("x", True, i=1)])
    assert_same(out, jnp.array([True, True]))


def test_scores_masked_by_minus_infinity():
    """Zero times infinity is NaN, so these entries are replaced, not blended."""
    x = jnp.array([-jnp.inf, 1.0, jnp.nan, jnp.inf])
    run = lambda *edits: opto.run(only("i"), x, edits=edits)[0]
    np.testing.assert_array_equal(run(opto.Zero("x")), np.zeros(4))
    np.testing.assert_array_equal(run(opto.Clamp("x", 5.0)), np.full(4, 5.0))
    off = jax.jit(lambda zero: run(opto.Clamp("x", 5.0, strength=zero)))
    np.testing.assert_array_equal(off(0.0), x)
    half = run(opto.Clamp("x", 5.0, strength=0.5))
    np.testing.assert_array_equal(half, [-np.inf, 3, np.nan, np.inf])
    others = run(opto.Clamp("x", 5.0, i=1))
    np.testing.assert_array_equal(others, [-np.inf, 5, np.nan, np.inf])

    def selected(strength):
        edits = [opto.Clamp("x", 5.0, i=[0, 1], strength=strength)]
        return opto.run(only("i"), x, edits=edits)[0][1]

    assert jax.grad(selected)(0.3) == 4


# Records.


def test_reducers():
    """A reducer gets the edited value."""
    model, inputs, _, record = case("ragged")
    reducers = {
        "layers.0.pattern": lambda p: p[:, -1],
        "layers.1.*": lambda v: {"max": v.max()},
        "embed": None,
    }
    edits = [opto.Scale("layers.1.resid", 2.0)]
    _, reduced = opto.run(model, *inputs, record=reducers, edits=edits)
    assert len(reduced) == 9
    assert_same(reduced["layers.0.pattern"], record["layers.0.pattern"][:, -1])
    assert_same(reduced["embed"], record["embed"])
    assert reduced["layers.1.q"]["max"] == np.max(record["layers.1.q"])
    assert reduced["layers.1.resid"]["max"] == 2 * np.max(record["layers.1.resid"])


def test_record_is_a_mapping_and_a_pytree():
    model, inputs, _, record = case("mlp")
    assert len(record) == 8
    assert set(record) == set(record.keys())
    doubled = jax.tree.map(lambda x: 2 * x, record)
    assert_same(doubled["out"], 2 * record["out"])
    with pytest.raises(KeyError, match="'outt' was not recorded; recorded:"):
        record["outt"]
    # A site that is asked for twice is recorded once.
    _, ours = opto.run(model, *inputs, record=["out", "out", "*s"])
    assert set(ours) == {"out", "hiddens"}
    _, ours = opto.run(model, *inputs, record=(name for name in ["out"]))
    assert_same(ours["out"], record["out"])
    # A lone star is every site, also those with dots.
    assert [*opto.run(model, *inputs, record="*")[1]] == [*record]


# One program for many edits.


def test_one_trace_for_edits_of_one_structure():
    model, inputs, _, _ = case("mlp")
    count = Count()
    model = Counted(model, count)
    site = "hiddens"
    unit = lambda i, **k: opto.Clamp(site, 0.5, unit=i, **k)
    opto.run(model, *inputs, edits=[unit(0)])
    traced = len(count)
    # One trace each: find sites, compile, see which sites are read.
    assert traced == 3
    for edit in (
        unit(0),
        unit(1),
        unit(-1, strength=0.2),
        unit([1]),
        unit(np.int64(1)),
        opto.Clamp(site, jnp.float32(3.0), unit=0),
        opto.Clamp(site, np.float32(3.0), unit=jnp.array(1)),
        opto.parse(repr(unit(1, strength=0.3))),
    ):
        opto.run(model, *inputs, edits=[edit])
        assert len(count) == traced, edit
    others = jax.tree.map(lambda x: x + 1 if eqx.is_array(x) else x, (model, inputs))
    opto.run(others[0], *others[1], edits=[unit(0)])
    assert len(count) == traced
    for edits in ([unit([0, 1])], [unit(0), unit(1)], [opto.Zero(site)], []):
        opto.run(model, *inputs, edits=edits)
        assert len(count) > traced, edits
        traced = len(count)
    record = {site: jnp.sum}
    opto.run(model, *inputs, record=record)
    traced = len(count)
    opto.run(model, *inputs, record=dict(record))
    assert len(count) == traced


def test_sites_come_in_order_and_compute_nothing():
    model, inputs = MODELS["ragged"]()
    table = opto.sites(model, *inputs)
    names = ["q", "k", "v", "pattern", "z", "out", "resid"]
    expected = ["embed", *(f"layers.{i}.{n}" for i in range(2) for n in names)]
    assert list(table) == expected
    abstract = eqx.filter_eval_shape(Ragged, jax.random.key(0))
    shapes = jax.ShapeDtypeStruct((7, 4, 6), jnp.float32)
    assert repr(opto.sites(abstract, shapes)) == repr(table)
    assert repr(table).splitlines()[4] == (
        "layers.0.pattern  float32[head=2 seq=4 kv_seq=4]"
    )
    assert [s.layer for s in table.values()] == [None] + [0] * 7 + [1] * 7


def test_sites_of_a_module_are_found_once():
    model, inputs, _, _ = case("mlp")
    count = Count()
    model = Counted(model, count)
    table = opto.sites(model, *inputs)
    assert opto.sites(model, *inputs) == table
    assert len(count) == 1
    opto.visit(model, *inputs, record="out")
    assert len(count) == 2


def test_sites_of_a_function_are_found_each_time():
    """It may close over something that has changed since."""
    length = 3
    fn = lambda *, tap: tap("ones", jnp.ones(length), "unit")
    assert opto.sites(fn)["ones"].shape == (3,)
    length = 5
    assert opto.sites(fn)["ones"].shape == (5,)


def test_sites_depend_on_weak_types():
    class Sum(eqx.Module):
        def __call__(self, x, *, tap):
            return tap("sum", x + jnp.ones((), jnp.bfloat16), "")

    for x in (jnp.asarray(1.0), jnp.float32(1.0)):
        expected = (x + jnp.ones((), jnp.bfloat16)).dtype
        assert opto.sites(Sum(), x)["sum"].dtype == expected


# Batches, and the user's own transformations.


def batched(x, *shape):
    """Makes different examples by rolling one, or different keys."""
    count = np.prod(shape)
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.split(x, count).reshape(shape)
    turned = jnp.stack([jnp.roll(x, i) for i in range(count)])
    return turned.reshape(*shape, *x.shape)


@pytest.mark.parametrize(("name", "shape"), [("ragged", (3, 2)), ("cnn", (2,))])
def test_batches_equal_a_loop(name, shape):
    model, inputs, _, _ = case(name)
    site = SITES[name]
    request = {
        "record": {site: lambda v: (v[0], v.sum()), "embed": None},
        "edits": [opto.Clamp(site, 0.5, unit=0), Negate(site, unit=1)],
    }
    if name == "cnn":
        request["record"] = {site: None}
    batch = [batched(x, *shape) for x in inputs]
    ours = opto.run(model, *batch, **request)
    for i in np.ndindex(*shape):
        one = opto.run(model, *(x[i] for x in batch), **request)
        assert_same(jax.tree.map(lambda x, i=i: x[i], ours), one, atol=1e-5)


def test_inside_the_users_vmap_jit_and_grad():
    model, _, _, _ = case("mlp")
    xs = jax.random.normal(jax.random.key(5), (3, 4))
    edits = [opto.Clamp("layers.1.post", 0.5, unit=-1)]

    def by(fn):
        return lambda x: fn(model, x, record="layers.1.pre", edits=edits)

    expected = [by(opto.run)(x) for x in xs]
    expected = jax.tree.map(lambda *xs: jnp.stack(xs), *expected)
    assert_same(jax.vmap(by(opto.run))(xs), expected, atol=1e-6)
    assert_same(jax.jit(jax.vmap(by(opto.visit)))(xs), expected, atol=1e-6)
    assert_same(jax.lax.map(by(opto.run), xs), expected, atol=1e-6)

    def loss(fn):
        return lambda x: jnp.sum(by(fn)(x)[0] ** 2)

    gradient = jax.jit(jax.grad(loss(opto.visit)))(xs[0])
    assert np.any(gradient != 0)
    assert_same(jax.jit(jax.grad(loss(opto.run)))(xs[0]), gradient, atol=1e-6)
    # The selection is unknown until the program runs.
    each = jax.vmap(
        lambda i: opto.run(model, xs[0], edits=[opto.Zero("out", label=i)])[0]
    )(jnp.arange(2))
    np.testing.assert_array_equal(np.asarray(each) == 0, np.eye(2, dtype=bool))
    # The same with one unknown and one known value.
    both = jax.jit(
        lambda i: opto.run(
            model, xs[0], edits=[opto.Clamp("out", [i, 1], axes="label")]
        )
    )(3)[0]
    np.testing.assert_array_equal(both, [3, 1])


def test_edits_made_inside_of_jit_are_checked():
    model, _, _, _ = case("mlp")

    def edited(make):
        return jax.jit(lambda x: opto.run(model, x, edits=[make()])[0])(jnp.ones(4))

    assert_same(edited(lambda: opto.Zero("out", label=1))[1], jnp.float32(0))
    with pytest.raises(ValueError, match="label 2 is out of range"):
        edited(lambda: opto.Zero("out", label=2))
    with pytest.raises(ValueError, match="not finite"):
        edited(lambda: opto.Clamp("out", float("nan")))


def test_visit_takes_any_function():
    """For example a loss that closes over its model, and a method."""
    model, inputs, out, _ = case("mlp")
    target = jnp.ones(2)

    def loss(x, *, tap=opto.identity):
        y = model(x, tap=tap.scope("model"))
        return tap("error", (y - target) ** 2, "label").sum()

    edits = [opto.Clamp("model.out", 3.0)]
    value, record = opto.visit(loss, *inputs, record=["error"], edits=edits)
    assert value == 8
    assert_same(record["error"], jnp.full(2, 4.0))
    lifted = opto.toolkit.lift(loss)
    assert lifted(*inputs, edits=edits) == 8
    np.testing.assert_allclose(lifted(*inputs), np.sum((out - 1) ** 2), rtol=1e-6)
    value, _ = opto.visit(model.__call__, *inputs, edits=[opto.Zero("out")])
    assert not np.any(value)


def test_gradients_equal_finite_differences():
    with jax.enable_x64(True):
        model, inputs, _, _ = case("mlp")
        to_float64 = lambda x: x.astype(float) if eqx.is_array(x) else x
        model, inputs = jax.tree.map(to_float64, (model, inputs))

        def loss(x, *, tap=opto.identity):
            return jnp.sum(jnp.sin(model(x, tap=tap)))

        @jax.jit
        def edited(parameters):
            value, weak, strong = parameters
            edits = [
                opto.Clamp("layers.1.post", weak, unit=1, strength=strong),
                opto.Clamp("hiddens", value, axes="hidden layer", strength=weak),
            ]
            return opto.toolkit.lift(loss)(*inputs, edits=edits)

        value = jax.random.normal(jax.random.key(0), (4, 3))
        for weak, strong in ((0.4, 0.7), (0.0, 1.0), (1.0, 0.0)):
            parameters = (value, jnp.asarray(weak), jnp.asarray(strong))
            assert any(map(np.any, jax.jit(jax.grad(edited))(parameters)))
            check_grads(edited, (parameters,), order=1, modes=["rev"], rtol=1e-6)


# Requests that change the computation.


class Lazy(eqx.Module):
    """Computes the parts of a sum only on request, like `result` of attention."""

    def __call__(self, x, *, tap=opto.identity):
        tap = tap.scope("lazy")
        if tap.wants("parts", "inner"):
            inner = tap.scope("inner")
            parts = jnp.stack([inner("left", x, "i"), inner("right", 2 * x, "i")])
            return tap("parts", parts, "part i").sum(0)
        return 3 * x


class Counter(eqx.Module):
    """Keeps a state, which may be read only once."""

    index: eqx.nn.StateIndex

    def __init__(self):
        self.index = eqx.nn.StateIndex(jnp.zeros(()))

    def __call__(self, inputs, state, *, tap=opto.identity):
        count = tap("count", state.get(self.index) + 1, "")
        x = tap("x", inputs["x"] * count, "i")
        return {"y": x, "name": inputs["name"]}, state.set(self.index, count)


def test_trees_and_states_go_in_and_out():
    model, state = eqx.nn.make_with_state(Counter)()
    inputs = {"x": jnp.ones(2), "name": "first"}
    for expected in (1, 2):
        (out, state), record = opto.run(
            model, inputs, state, record="x", edits=[opto.Zero("x", i=0)]
        )
        assert out["name"] == "first"
        np.testing.assert_array_equal(out["y"], [0, expected])
        assert_same(record["x"], out["y"])
    (_, state), _ = opto.run(model, inputs, state, edits=[opto.Clamp("count", 7.0)])
    assert state.get(model.index) == 7


def test_no_tracer_stays_behind():
    model, inputs, out, _ = case("mlp")
    edits = [opto.Zero("layers.0.pre", unit=0)]
    with jax.checking_leaks():
        _, record = opto.run(model, *inputs, record="**", edits=edits)
        jax.jit(lambda x: opto.visit(model, x, record="**", edits=edits)[1])(*inputs)
    assert record["layers.0.pre"][0] == 0
    edits = pickle.loads(pickle.dumps(edits))
    assert_same(opto.run(model, *inputs, record="**", edits=edits)[1], record)


def test_wants():
    x = jnp.ones(2)
    sites = opto.sites(Lazy(), x)
    assert list(sites) == ["lazy.inner.left", "lazy.inner.right", "lazy.parts"]
    quiet = str(jax.make_jaxpr(lambda x: opto.visit(Lazy(), x)[0])(x))
    assert "concatenate" not in quiet
    for edit, expected in (
        (opto.Zero("lazy.parts", part=0), 2),
        (opto.Zero("lazy.inner.right"), 1),
        (opto.Zero("lazy.**"), 0),
    ):
        out, _ = opto.run(Lazy(), x, edits=[edit])
        np.testing.assert_array_equal(out, expected)


def test_a_site_that_is_not_computed_this_time():
    def fickle(x, tap=opto.identity):
        return tap("a", x, "") if tap.wants("b") else x

    assert list(opto.sites(fickle, jnp.ones(()))) == ["a"]
    with pytest.raises(RuntimeError, match="did not compute sites that it listed: a"):
        opto.run(fickle, jnp.ones(()), record="a")


def test_a_python_number_is_a_constant_of_the_program():
    def model(x, power, tap=opto.identity):
        return tap("x", x**power, "i")

    out, _ = opto.run(model, 2 * np.ones(2), 3, edits=[opto.Zero("x", i=0)])
    np.testing.assert_array_equal(out, [0, 8])
