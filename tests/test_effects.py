"""Edits that change nothing are refused, and no others."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from icl.edits import CopyFromPattern, Induction, PerfectPreviousToken
from icl.models import exemplar_label_interface, TransformerConfig
from opto import (
    At,
    Block,
    Clamp,
    Freeze,
    Graft,
    Patch,
    PathPatch,
    Pattern,
    PreviousToken,
    Scale,
    Steer,
    Uniform,
    Zero,
)
from opto._effects import without_effect
from opto._observed import Observed
from opto.toolkit import check_call, with_effect


A0, A1 = "blocks.0.attn.", "blocks.1.attn."
Q0, Q1 = A0 + "q", A1 + "q"
K0, K1 = A0 + "k", A1 + "k"
V0, V1 = A0 + "v", A1 + "v"
Z0, Z1 = A0 + "z", A1 + "z"
SCORES0, SCORES1 = A0 + "scores", A1 + "scores"
PATTERN0, PATTERN1 = A0 + "pattern", A1 + "pattern"
NORMED1, OUT0, OUT1, RESULT1 = A1 + "normed", A0 + "out", A1 + "out", A1 + "result"


@functools.cache
def model(seed=0):
    config = TransformerConfig(2, 8, 2, mlp_ratio=1.0)
    build = lambda key: config.build(exemplar_label_interface(3, dim=3), key=key)
    return eqx.filter_jit(build)(jax.random.key(seed))


@functools.cache
def inputs():
    examples = jax.random.normal(jax.random.key(9), (3, 3, 3))
    return examples, jnp.tile(jnp.array([1, 2, 1]), (3, 1))


@functools.cache
def table():
    return opto.sites(model(), *inputs())


def path(receivers):
    """A path from a head of layer 0, with its own values."""
    return PathPatch(At(Z0, head=0), receivers, {Z0: np.ones((2, 5, 4))})


FIRST = np.array([True, False])[:, None, None]
VOID = {
    "no_entry": (
        lambda: [Zero(Z1, head=1, mask=FIRST)],
        0,
        "it selects no entry",
    ),
    "overwritten": (
        lambda: [Zero(Z1, head=0), Freeze(Z1)],
        0,
        "later in the list",
    ),
    "same_value": (
        lambda: [Zero(Z1), Zero(Z1, head=0)],
        1,
        "an earlier edit sets",
    ),
    "scaled_zeros": (
        lambda: [Zero(Z1), Scale(Z1, 2)],
        1,
        "an earlier edit sets",
    ),
    "block_under_a_pattern": (
        lambda: [Block(distance=1, heads="1:0"), Pattern(Uniform(), heads="1:0")],
        *(0, "feeds only into 'blocks.1.attn.pattern', which Pattern(Uniform()"),
    ),
    "block_under_the_query_s_pattern": (
        lambda: [
            Pattern(Induction(), heads="1:0"),
            Block(queries="query", keys="exemplar", heads="1:0"),
        ],
        *(1, "which Pattern(Induction(weight=1.0), heads='1:0') sets"),
    ),
    "block_of_the_future": (
        lambda: [Block(queries="exemplar", keys="query", layer=1)],
        *(0, "masked: no query sees these keys"),
    ),
    "scaled_mask": (
        lambda: [Scale(SCORES1, 0.5, pos=0, kv_seq=[2, 3])],
        0,
        "masked",
    ),
    "steered_mask": (lambda: [Steer(SCORES1, 1.0, pos=1, kv_seq=4)], 0, "masked"),
    "steered_rows": (
        lambda: [Steer(SCORES1, 1.0, head=0)],
        *(None, "a softmax cancels"),
    ),
    "zero_future": (lambda: [Zero(PATTERN1, pos=0, kv_seq=3)], 0, "0 already"),
    "tokens_that_are_not_read": (
        lambda: [Pattern(PreviousToken(queries="label"), layer=1)],
        *(0, "the outputs are made of other entries of 'logits'"),
    ),
    "a_label_s_values": (lambda: [Zero(Z1, pos=1)], 0, "other entries of 'logits'"),
    "other_logits": (
        lambda: [Zero("logits", pos=[1, 3])],
        *(0, "changes nothing: the outputs are made of other entries of 'logits'"),
    ),
    "the_query_s_label": (
        lambda: [Clamp("tokens.label", 1, exemplar=2)],
        *(0, "nothing reads what it changes at 'tokens.label'"),
    ),
    "ahead_of_what_reads_other_values": (
        lambda: [Zero(Z1, pos=4), CopyFromPattern(heads="1:1")],
        *(0, "feeds only into 'logits', which CopyFromPattern(heads='1:1') sets"),
    ),
    "a_void_pair_ahead_of_a_copy": (
        lambda: [Zero(Z1), Freeze(Z1), CopyFromPattern(heads="1:1")],
        *(0, "changes nothing"),
    ),
    "two_copies": (
        lambda: [CopyFromPattern(heads="1:0"), CopyFromPattern(heads="1:1")],
        *(0, "later in the list, sets the same entries"),
    ),
    "void_beside_a_perfect_layer": (
        lambda: [Block(queries="exemplar", keys="query"), PerfectPreviousToken(1)],
        *(0, "masked: no query sees these keys"),
    ),
    "one_key": (lambda: [Scale(Q1, 2, pos=0)], 0, "see only one key"),
    "after_freeze": (
        lambda: [Freeze("**"), Zero(Z0)],
        1,
        "which Freeze('**') sets",
    ),
    "keys_under_patterns": (
        lambda: [Zero(K1), Pattern(PreviousToken(), layer=1)],
        *(0, "feeds only into 'blocks.1.attn.pattern'"),
    ),
    "values_under_z": (
        lambda: [Zero(V1, head=1), Freeze(Z1, head=1)],
        0,
        "z'",
    ),
    "part_under_out": (
        lambda: [Zero(NORMED1), Freeze(OUT1)],
        0,
        "attn.out', whi",
    ),
    "donor": (
        lambda: [Graft(model(1), until=0, edits=[Zero(Z1)])],
        *(
            None,
            "Zero('blocks.1.attn.z') changes nothing: Graft(<ExemplarLabelModel>, ",
        ),
    ),
    "donor_of_a_donor": (
        lambda: [
            Graft(
                model(1),
                until=1,
                edits=[Graft(model(), until=0, edits=[Zero(Q1, head=0)])],
            )
        ],
        *(None, "until=0) reads only 'blocks.0.resid_post', and this edit is at"),
    ),
}

FINE = {
    "read_by_a_copy": lambda: [
        Zero(Z0, head=0),
        CopyFromPattern(heads="1:1"),
    ],
    "read_by_a_copy_and_then_set": lambda: [
        Zero(SCORES1, head=1, pos=-1, kv_seq=1),
        CopyFromPattern(heads="1:1"),
        Freeze(SCORES1),
    ],
    "another_head": lambda: [
        Block(distance=1, heads="1:1"),
        Pattern(Uniform(), heads="1:0"),
    ],
    "other_rows": lambda: [
        Pattern(Induction(), heads="0:0"),
        Block(queries="label", keys="exemplar", heads="0:0"),
    ],
    "lifted": lambda: [
        Clamp(SCORES1, 0.5, pos=0, kv_seq=3),
        Zero(PATTERN1, pos=0, kv_seq=3),
    ],
    "lifts": lambda: [Clamp(SCORES1, 0.5, pos=0, kv_seq=3)],
    "past": lambda: [
        Zero("blocks.1.resid_pre"),
        Freeze(PATTERN1),
        Freeze(V1),
    ],
    "held": lambda: [Freeze("**.pattern"), Zero(Z0, head=0)],
    "held_alone": lambda: [Freeze("**")],
    "off": lambda: [Zero(Z1, strength=0), Clamp(Z1, 1.0)],
    "weaker": lambda: [Zero(Z1), Clamp(Z1, 1.0, strength=0.5)],
    "moved": lambda: [Zero(Z1), Steer(Z1, 1.0)],
    "donor": lambda: [Graft(model(1), until=0, edits=[Zero("**.attn.z")])],
    "partly": lambda: [Clamp(Z1, 1.0), Freeze(Z1, head=0)],
}


@pytest.mark.parametrize("name", VOID)
def test_edits_that_change_nothing_are_refused(name):
    make, wrong, message = VOID[name]
    edits = make()
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        opto.run(model(), *inputs(), edits=edits)
    assert "\n" not in str(raised.value)
    if wrong is not None:
        assert str(raised.value).startswith(f"{edits[wrong]!r}"[:100])
        outputs = lambda edits: quietly(model(), [x[0] for x in inputs()], edits)[0]
        np.testing.assert_array_equal(
            *map(outputs, (edits, [e for e in edits if e is not edits[wrong]]))
        )


@pytest.mark.parametrize("name", FINE)
def test_edits_that_change_something_are_not(name):
    plain = opto.run(model(), *inputs())
    edited = opto.run(model(), *inputs(), edits=FINE[name]())
    # An edit that freezes everything is a control, so it may change nothing.
    assert (differ(edited, plain) > 0) == (name != "held_alone")


def test_what_is_recorded_is_seen():
    """An edit that changes only a recorded value has an effect."""
    edits = [Zero(Q1), Freeze(PATTERN1)]
    opto.check(edits, table(), record=SCORES1)
    _, record = opto.run(model(), *inputs(), edits=edits, record=SCORES1)
    assert not record[A1 + "scores"][:, :, -1].any()
    for record in ((), PATTERN1, V1, SCORES0):
        with pytest.raises(ValueError, match="changes nothing"):
            opto.run(model(), *inputs(), edits=edits, record=record)
    # The model still computes what a graft replaces.
    edits = [Zero(Q0), Graft(model(1), until=0)]
    opto.run(model(), *inputs(), edits=edits, record=PATTERN0)
    for record in ((), PATTERN1, V0):
        with pytest.raises(
            ValueError, match="Zero.* (would have no effect|changes no)"
        ):
            opto.run(model(), *inputs(), edits=edits, record=record)


SWEPT = {
    "overwritten": (
        lambda: [Zero(Z1).each("head"), Clamp(Z1, 1.0)],
        "'head')",
    ),
    "zeros": (
        lambda: [Zero("**.z"), Zero("**.z").each("layer", "head")],
        "each('layer', 'h",
    ),
    "stack": (
        lambda: [opto.stack([Zero(Z1), Zero(V1)]), Freeze(Z1)],
        "stack([Zero('blocks.1.attn.z'), Zero('blocks.1.attn.v')]) changes nothing",
    ),
    "fixed": (
        lambda: [
            Zero(Z1),
            opto.stack([Clamp(Z1, 1.0), Clamp(Z1, 2.0)]),
        ],
        "Zero('blocks.1.attn.z') changes nothing",
    ),
    "donor": (
        lambda: [Graft(model(1), until=0, edits=[Zero(Z1).each("head")])],
        "reads only 'blocks.0.resid_post', and this edit is at 'blocks.1.attn.z'",
    ),
    "path": (
        lambda: [
            PathPatch(
                At(Z1).each("head"),
                At("blocks.*.attn.k", layer=0),
                {Z1: np.ones((2, 5, 4))},
            )
        ],
        "there is no path from",
    ),
    "some_points": (
        lambda: [Zero(Z0, head=0), Zero("**.z").each("layer", "head")],
        None,
    ),
    "held": (lambda: [Freeze("**.pattern"), Zero("**.z").each("layer", "head")], None),
    "off": (
        lambda: [Clamp(Z1, 1.0), opto.stack([Zero(Z1, strength=0)] * 2)],
        None,
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", SWEPT)
def test_sweeps_whose_columns_are_all_equal_are_refused(name):
    make, message = SWEPT[name]
    edits = make()
    sweep = functools.partial(opto.sweep, lambda logits, *_: logits.sum(), model())
    if message is None:
        sweep(*inputs(), edits=edits)
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep(*inputs(), edits=edits)


@pytest.mark.parametrize(
    ("ends", "frozen", "fine"),
    [
        (lambda: (At(Z0, head=0), At(K1, head=1)), "**.z", True),
        (
            lambda: (At("**.z", heads="1:0"), At("**.k", heads="0:0")),
            "**.mlp.out",
            False,
        ),
        (
            lambda: (At(V1, head=0), At(RESULT1, head=1)),
            "**.mlp.out",
            False,
        ),
        (lambda: (At(V1, head=0), At(RESULT1, head=0)), "**.mlp.out", True),
        (lambda: (At(V0, head=0), At(K1, head=0)), "**.resid_mid", False),
    ],
)
def test_paths_that_lead_nowhere(ends, frozen, fine):
    source = {s: np.ones(table()[s].shape) for s in (Z0, Z1)}
    source |= {s: np.ones(table()[s].shape) for s in (V0, V1)}
    edits = [PathPatch(*ends(), source, frozen=frozen)]
    if fine:
        opto.check(edits, table())
        return
    with pytest.raises(ValueError, match="there is no path from At.* to At"):
        opto.check(edits, table())


def test_a_mask_that_nobody_says_is_not_known():
    """Without `seen`, an edit of a future key may have an effect."""

    def attends(rows):
        def fn(x, tap):
            scores = jnp.where(jnp.tri(3) > 0, x @ x.T, -1e20)[None]
            scores = tap("scores", scores, "head seq kv_seq", rows=rows)
            return jax.nn.softmax(scores)

        return fn

    edits = [Scale("scores", 2.0, seq=0, kv_seq=2)]
    opto.visit(attends(opto.Rows("logits", "A")), jnp.ones((3, 2)), edits=edits)
    seen = opto.Rows("logits", "A", seen=np.tri(3) > 0)
    with pytest.raises(ValueError, match="masked: no query sees these keys"):
        opto.visit(attends(seen), jnp.ones((3, 2)), edits=edits)


def test_an_edit_before_a_graft_of_the_last_layers_counts():
    """We cannot know in advance what the other model does with it."""
    edits = [Zero(Z0, head=0), Graft(model(1), from_=1)]
    assert opto.check(edits, table()) == tuple(edits)
    assert with_effect(edits[:1], edits[1:], table()) == tuple(edits[:1])
    out = [opto.run(model(), *inputs(), edits=e)[0] for e in (edits, edits[1:])]
    assert np.abs(out[0] - out[1]).max() > 1e-3


def test_void_edits_of_a_donor_are_refused_everywhere():
    donor = Graft(model(1), until=0, edits=[Zero(Z1)])
    example = [x[0] for x in inputs()]
    for call in (
        lambda: opto.visit(model(), *example, edits=[donor]),
        lambda: jax.eval_shape(lambda: opto.lift(model())(*example, edits=[donor])),
        lambda: check_call(model(), *example, edits=[donor]),
    ):
        with pytest.raises(ValueError, match="Zero.*reads only 'blocks.0.resid_post'"):
            call()


FUTURE = ~np.tri(5, dtype=bool)[None]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Clamp(SCORES1, -1e30, head=0, pos=0, kv_seq=0),
        lambda: Scale(SCORES1, 1e-20, mask=FUTURE),
        lambda: Steer(SCORES1, 1e20, mask=FUTURE),
    ],
    ids=["lowers", "shrinks", "lifts"],
)
def test_numbers_as_large_as_those_that_mask_change_something(make):
    plain, _ = opto.run(model(), *inputs())
    edited, _ = opto.run(model(), *inputs(), edits=[make()])
    assert np.abs(plain - edited).max() > 1e-4


def test_edits_of_the_same_values_are_named():
    shape = table()["embed"].shape
    edits = [Zero("embed"), Clamp("embed", np.zeros(shape))]
    with pytest.raises(ValueError, match=r"Zero\('embed'\) .*: Clamp\('embed'"):
        opto.run(model(), *inputs(), edits=edits)


# Random pairs: an accepted edit changes something, a refused one does not.


class Light(eqx.Module):
    """Two blocks with the usual sites; the outputs are those of every other token.

    It has few operations, because dispatch dominates the time without compilation.
    """

    weights: dict[str, jax.Array]
    roles: tuple[int, ...] = eqx.field(static=True, default=(0, 1, 0, 1, 2))

    @staticmethod
    def of(seed):
        rng, shapes = np.random.default_rng(seed), {"unembed": (6, 4)}
        for i in (0, 1):
            shapes |= {f"{i}{x}": (2, 6, 3) for x in "qkv"} | {f"{i}o": (2, 3, 6)}
            shapes |= {f"{i}up": (6, 7), f"{i}down": (7, 6)}
        return Light(
            {k: jnp.asarray(rng.normal(size=v) / 2) for k, v in shapes.items()}
        )

    def __call__(self, x, *, tap):
        w, stream, heads = self.weights, "seq d_model", "head seq d_head"
        tap("tokens.role", jnp.array(self.roles), "seq")
        x = tap("embed", x, stream)
        for i in ("0", "1"):
            here = tap.scope(f"blocks.{i}")
            at, mlp = here.scope("attn"), here.scope("mlp")
            x = here("resid_pre", x, stream)
            normed = at("normed", norm(x), stream)
            q_in = at("q_in", jnp.stack([normed] * 2), "head seq d_model")
            q = at("q", at("q_pre", q_in @ w[i + "q"], heads), heads)
            k, v = (at(n, normed @ w[i + n], heads) for n in "kv")
            z = at("z", attend(q, k, v, at), heads)
            result = at("result", z @ w[i + "o"], "head seq d_model")
            x = here("resid_mid", x + at("out", result.sum(0), stream), stream)
            normed = mlp("normed", norm(mlp("in", x, stream)), stream)
            pre = mlp("pre", normed @ w[i + "up"], "seq d_mlp")
            post = mlp("post", jnp.tanh(pre), "seq d_mlp")
            x = x + mlp("out", post @ w[i + "down"], stream)
            x = here("resid_post", x, stream)
        x = tap("final.normed", norm(tap("final.in", x, stream)), stream)
        return tap("logits", x @ w["unembed"], "seq label")[1::2]


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def attend(q, k, v, tap):
    seen, axes = np.tri(q.shape[1]) > 0, "head seq kv_seq"
    rows = opto.Rows("logits", "Light", seen)
    scores = tap("scores", jnp.where(seen, q @ k.mT, -1e20), axes, rows=rows)
    weights = jnp.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    rows = opto.Rows("distribution", "Light", seen)
    return tap("pattern", weights, axes, rows=rows) @ v


@functools.cache
def light():
    """The model, an input and its sites."""
    fn = Light.of(0)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(5, 6)))
    return fn, x, opto.sites(fn, x)


STREAM = ["embed", "final.in", *(f"blocks.{i}.resid_{x}" for i in (0, 1) for x in
          ("pre", "mid", "post"))]  # fmt: skip
MLP = [f"blocks.{i}.mlp.{x}" for i in (0, 1) for x in ("in", "normed", "pre", "post")]
HEADS = [
    a + x for a in (A0, A1) for x in ("q_pre", "q", "k", "v", "z", "result", "q_in")
]
WEIGHTS = [a + x for a in (A0, A1) for x in ("scores", "pattern")]
OUT = [OUT0, OUT1, NORMED1, "blocks.0.mlp.out"]


def draw(rng):
    """A random edit, with values that do not cancel."""
    groups = (STREAM, MLP, HEADS, HEADS, WEIGHTS, WEIGHTS, OUT)
    site = light()[2][rng.choice(groups[rng.integers(len(groups))])]
    name, where = site.name, {}
    for axis, size in zip(site.axes, site.shape, strict=True):
        if rng.random() < (0.5 if axis == "head" else 0.25):
            count = rng.integers(1, size - 1 if axis == "seq" else size)
            where[axis] = rng.choice(size, count, replace=False).tolist()
    if rng.random() < 0.1:
        where["mask"] = rng.random(site.shape) < rng.choice([0.02, 0.3])
        if not where["mask"].any():
            del where["mask"]
    strength = {"strength": rng.choice([1.0, 1.0, 1.0, 0.5])}
    value = rng.normal(size=site.shape).astype(np.float32)
    kinds = {
        "clamp": lambda: Clamp(name, value, **strength, **where),
        "scale": lambda: Scale(
            name, float(rng.choice([0.5, 3.0])), **strength, **where
        ),
        "steer": lambda: Steer(name, value, **strength, **where),
        "patch": lambda: Patch(name, {name: value}, **strength, **where),
        "mean": lambda: opto.Mean(name, {name: value}, **strength, **where),
        "freeze": lambda: Freeze(name, **where),
    }
    if name in WEIGHTS or name in STREAM and where:
        kinds["zero"] = lambda: Zero(name, **strength, **where)
    if name in WEIGHTS:
        heads = {k: where[k] for k in ("head",) if k in where} | {"layer": site.layer}
        rows = heads | {k: where[k] for k in ("seq",) if k in where}
        tokens = "exemplar label query all".split()
        pair = {"queries": str(rng.choice(tokens)), "keys": str(rng.choice(tokens[:3]))}
        kinds["pattern"] = lambda: Pattern(Uniform(), **strength, **heads)
        kinds["previous"] = lambda: Pattern(PreviousToken(0.7), **heads)
        kinds["some"] = lambda: Pattern(Uniform(queries="label"), **heads)
        kinds["block"] = lambda: Block(**pair, **strength, **rows)
        kinds["distance"] = lambda: Block(distance=int(rng.integers(3)), **rows)
    return kinds[rng.choice(list(kinds))]()


def of_products(edits):
    """Whether one edit may hide another by its values, which the check does not read.

    For example, a pattern is zero where it multiplies the entries that another edit
    changes, or another edit of the list has set it already.
    """
    layers = {site.layer for e in edits for site in where(e)}
    inside = all("attn" in site.name for e in edits for site in where(e))
    hides = any(isinstance(e, Block | Pattern | Zero) for e in edits)
    return hides and inside and len(layers) == 1


def where(edit):
    """The sites of an edit."""
    return edit.where.within(light()[2].match(edit.site))


def quietly(fn, args, edits, record=()):
    """Runs without the check of effects."""
    from opto import _run

    check, _run.check_effects = _run.check_effects, lambda *_, **__: None
    try:
        return opto.visit(fn, *args, edits=edits, record=record)
    finally:
        _run.check_effects = check


def differ(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.max(np.abs(np.asarray(x) - y), initial=0)) for x, y in pairs)


def check_pair(rng):
    """Checks one random pair. Returns a message if the check was wrong about it."""
    edits = [draw(rng), draw(rng)]
    fn, x, table = light()
    names = list(table)
    record = rng.choice(names, rng.integers(3), replace=False).tolist()
    try:
        for edit in edits:
            edit.check(table)
        opto._together.check_together(edits, table, record)
    except ValueError:
        return None
    void = without_effect(edits, table, Observed.too(record))
    both = quietly(fn, [x], edits, record)
    if not all(np.isfinite(x).all() for x in jax.tree.leaves(both)):
        return None
    for i in (0, 1):
        change = differ(both, quietly(fn, [x], [edits[1 - i]], record))
        if i in void and change > 1e-6:
            return f"refused, but changes {change}: {edits}, {i}, {record}, {void[i]}"
        # A freeze counts even if no other edit would move the values.
        if i not in void and change == 0 and not isinstance(edits[i], Freeze):
            if not of_products(edits):
                return f"accepted, but changes nothing: {edits}, {i}, {record}"
    return bool(void)


def test_pairs_at_random():
    results = [check_pair(np.random.default_rng(seed)) for seed in range(PAIRS)]
    wrong = [x for x in results if isinstance(x, str)]
    assert not wrong, wrong[0]
    # The draws include both outcomes.
    assert results.count(True) > PAIRS / 20
    assert results.count(False) > PAIRS / 3


PAIRS = 100
