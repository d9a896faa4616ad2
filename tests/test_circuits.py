import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import shaken

import opto
from icl.edits.heads import duplicate_token, induction_strength
from icl.models import (
    exemplar_label_interface,
    fold_layer_norms,
    NoPositions,
    TransformerConfig,
)
from icl.roles import EXEMPLAR, LABEL, QUERY
from opto import circuits, heads
from opto.circuits import Factored, HeadWeights


close = np.testing.assert_allclose


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def factored(key, rows, rank, columns, batch=()):
    left, right = jax.random.split(key)
    return Factored(
        jax.random.normal(left, (*batch, rows, rank)),
        jax.random.normal(right, (*batch, rank, columns)),
    )


def dense(f):
    return np.asarray(f.left) @ np.asarray(f.right)


def layer(key, num_heads, d_head, d_model):
    keys = jax.random.split(key, 4)
    read = [jax.random.normal(k, (num_heads, d_head, d_model)) for k in keys[:3]]
    return HeadWeights(*read, jax.random.normal(keys[3], (num_heads, d_model, d_head)))


def matrices(weights):
    """The dense QK and OV matrices of each head."""
    q, k, v, o = (np.asarray(x) for x in jax.tree.leaves(weights))
    return [a.T @ b for a, b in zip(q, k, strict=True)], [
        a @ b for a, b in zip(o, v, strict=True)
    ]


def in_order(eigenvalues):
    """Sorts by size; of a conjugate pair, the lower comes first."""
    return sorted(eigenvalues, key=lambda z: (round(abs(z), 6), z.imag))


def test_floats_of_16_bits_are_computed_in_32():
    dtype = jnp.bfloat16
    weights = jax.tree.map(lambda x: x.astype(dtype), layer(jax.random.key(3), 2, 3, 8))
    wide = jax.tree.map(lambda x: np.asarray(x, np.float64), weights)
    expected = wide.output @ wide.value
    circuit = circuits.ov(weights)
    close(circuit.norm(), np.linalg.norm(expected, axis=(1, 2)), rtol=1e-5)
    singular = np.linalg.svd(expected, compute_uv=False)[:, :3]
    close(circuit.singular_values(), singular, rtol=1e-5)
    eigenvalues = np.linalg.eigvals(expected)
    sums = eigenvalues.sum(-1).real / np.abs(eigenvalues).sum(-1)
    close(circuits.copying_score(circuit), sums, rtol=1e-4)
    assert circuits.k_composition(weights, weights).dtype == jnp.float32
    written = expected @ np.eye(8)[:, :2]
    cosines = written / np.linalg.norm(written, axis=1, keepdims=True)
    found = circuits.alignment(circuit, jnp.eye(8)[:2], jnp.eye(8, dtype=dtype))
    close(found, cosines, rtol=1e-4, atol=1e-6)


SHAPES = [(9, 3, 9), (9, 1, 7), (4, 6, 9), (4, 6, 4)]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", SHAPES)
def test_factored_is_the_product(shape, getkey):
    f = factored(getkey(), *shape, (3, 2))
    matrix = dense(f)
    assert f.shape == matrix.shape
    close(f.product(), matrix, atol=1e-12)
    close(f.T.product(), np.swapaxes(matrix, -2, -1), atol=1e-12)
    close(f.norm(), np.linalg.norm(matrix, axis=(-2, -1)), rtol=1e-12)
    expected = np.linalg.svd(matrix, compute_uv=False)[..., : min(shape)]
    close(f.singular_values(), expected, atol=1e-9)
    left, values, right = f.svd()
    close(values, expected, atol=1e-9)
    close(left * values[..., None, :] @ right, matrix, atol=1e-12)
    for vectors in (left.mT, right):
        gram = vectors @ vectors.mT
        close(gram, np.broadcast_to(np.eye(min(shape)), gram.shape), atol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[0] == s[2]])
def test_eigenvalues_are_the_products(shape, getkey):
    f = factored(getkey(), *shape, (2,))
    assert f.eigenvalues().shape == (2, min(shape))
    for ours, matrix in zip(f.eigenvalues(), dense(f), strict=True):
        theirs = in_order(np.linalg.eigvals(matrix))
        close(in_order(ours.tolist()), theirs[-len(ours) :], atol=1e-9)
        close(theirs[: -len(ours)], 0, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_products_stay_factored(getkey):
    f, g = factored(getkey(), 9, 3, 7, (4,)), factored(getkey(), 7, 2, 5, (4,))
    matrix = np.random.default_rng(0).standard_normal((7, 6))
    for ours, expected, rank in (
        (f @ g, dense(f) @ dense(g), 2),
        (f[0] @ g[0], dense(f)[0] @ dense(g)[0], 2),
        (f @ matrix, dense(f) @ matrix, 3),
        (matrix.T @ g, matrix.T @ dense(g), 2),
        (jnp.asarray(matrix.T) @ g, matrix.T @ dense(g), 2),
    ):
        assert isinstance(ours, Factored)
        assert ours.rank == rank
        close(ours.product(), expected, atol=1e-12)


def test_indexing_is_numpys(getkey):
    f = factored(getkey(), 3, 2, 5, (4, 6))
    matrix = f.product()
    for index in (-1, (1, 2), (slice(None), 5), ([0, 2], [1, 1])):
        close(f[index].product(), matrix[index], rtol=1e-6)
    assert len([*f]) == 4
    for index in (4, (0, 0, 0)):
        with pytest.raises(IndexError):
            f[index]


def probe(positions, getkey, **settings):
    config = TransformerConfig(
        d_model=16, num_heads=(4, 2), positions=positions, **settings
    )
    interface = exemplar_label_interface(5, dim=7)
    model = eqx.filter_jit(config.build)(interface, key=getkey())
    examples = jax.random.normal(getkey(), (5, 7))
    labels = jnp.array([1, 4, 1, 0, 4])
    return model, (examples, labels)


@pytest.mark.usefixtures("x64")
def test_circuits_are_what_the_model_computes(getkey):
    model, inputs = probe(NoPositions(), getkey, causal=False)
    _, record = opto.run(model, *inputs, record="**")
    for i, block in enumerate(model.blocks):
        x, scores, pattern, z, result = (
            np.asarray(record[f"blocks.{i}.attn.{name}"])
            for name in ("normed", "scores", "pattern", "z", "result")
        )
        weights = block.attn.head_weights
        for h, (qk, ov) in enumerate(zip(*matrices(weights), strict=True)):
            close(circuits.qk(weights)[h].product(), qk, atol=1e-12)
            close(circuits.ov(weights)[h].product(), ov, atol=1e-12)
            close(block.attn.kind.scale * x @ qk @ x.T, scores[h], atol=1e-12)
            close(pattern[h] @ x @ ov.T, result[h], atol=1e-12)
            close(z[h] @ np.asarray(weights.output[h]).T, result[h], atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_qk_of_rotary_positions_is_at_distance_zero(getkey):
    model, inputs = probe(TransformerConfig().positions, getkey)
    _, record = opto.run(model, *inputs, record="blocks.0.attn.*")
    x = np.asarray(record["blocks.0.attn.normed"])
    attn = model.blocks[0].attn
    ours = x @ circuits.qk(attn.head_weights).product() @ x.T * attn.kind.scale
    theirs = record["blocks.0.attn.scores"]
    diagonal = lambda s: np.diagonal(s, axis1=1, axis2=2)
    close(diagonal(ours), diagonal(theirs), atol=1e-12)
    below = np.tril_indices(9, -1)
    assert np.abs(ours - theirs)[:, *below].max() > 0.1


def turn(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.kron(np.eye(3), np.array([[c, -s], [s, c]]))


@pytest.mark.usefixtures("x64")
def test_copying_score_in_closed_form(getkey):
    """A rotation has eigenvalues exp(±i angle), so the score is the angle's cosine."""
    angles = np.array([0, np.pi, np.pi / 2, 1.0])
    ov = Factored(
        jnp.stack([jnp.asarray(turn(a)) for a in angles]), jnp.stack([jnp.eye(6)] * 4)
    )
    close(circuits.copying_score(ov), np.cos(angles), atol=1e-12)
    # Tokens are orthonormal directions; one of them is not copied.
    embed, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))
    flip = Factored(jnp.eye(6), jnp.diag(jnp.array([1.0, 1, 1, 1, 1, -1])))
    through = embed @ (embed.T @ flip @ embed) @ embed.T
    close(circuits.copying_score(through), (5 - 1) / 6, atol=1e-12)
    assert np.isnan(
        circuits.copying_score(Factored(jnp.zeros((6, 2)), jnp.ones((2, 6))))
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("tokens", [5, 30])
def test_copying_score_is_of_the_dense_circuit(tokens, getkey):
    weights = layer(getkey(), 3, 8, 16)
    embed, unembed = (jax.random.normal(getkey(), (tokens, 16)) for _ in range(2))
    scores = circuits.copying_score(unembed @ circuits.ov(weights) @ embed.T)
    for score, ov in zip(scores, matrices(weights)[1], strict=True):
        eigenvalues = np.linalg.eigvals(np.asarray(unembed) @ ov @ np.asarray(embed).T)
        expected = eigenvalues.sum() / np.abs(eigenvalues).sum()
        close(score, expected.real, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_alignment_is_cosines(getkey):
    weights = layer(getkey(), 3, 2, 8)
    inputs = jax.random.normal(getkey(), (4, 8))
    outputs = jax.random.normal(getkey(), (5, 8))
    ours = circuits.alignment(circuits.ov(weights), inputs, outputs)
    assert ours.shape == (3, 5, 4)
    wrote = np.stack(matrices(weights)[1]) @ np.asarray(inputs).T
    lengths = np.linalg.norm(wrote, axis=1)[:, None], np.linalg.norm(outputs, axis=1)
    close(ours, outputs @ wrote / lengths[0] / lengths[1][:, None], atol=1e-12)
    same = circuits.alignment(Factored(2 * jnp.eye(8), jnp.eye(8)), inputs, inputs)
    close(np.diagonal(same), 1, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_composition_is_of_the_dense_circuits(getkey):
    writer, reader = layer(getkey(), 4, 3, 16), layer(getkey(), 2, 5, 16)
    (_, wrote), (qk, ov) = matrices(writer), matrices(reader)
    norm = np.linalg.norm
    for score, reads in (
        (circuits.q_composition, [m.T for m in qk]),
        (circuits.k_composition, qk),
        (circuits.v_composition, ov),
    ):
        expected = [[norm(r @ w) / norm(r) / norm(w) for w in wrote] for r in reads]
        close(score(writer, reader), expected, rtol=1e-10)


def test_composition_in_closed_form():
    """A projection onto k of d directions composes with itself to 1 / sqrt(k)."""
    onto = lambda *axes: Factored(jnp.eye(8)[:, axes], jnp.eye(8)[axes, :])
    both = lambda f, g: Factored(
        jnp.stack([f.left, g.left]), jnp.stack([f.right, g.right])
    )
    writer, reader = both(onto(0, 1), onto(4, 5)), both(onto(0, 1), onto(1, 4))
    half, less = 1 / np.sqrt(2), 1 / 2
    close(circuits.composition(writer, reader), [[half, 0], [less, less]], atol=1e-6)
    one = Factored(jnp.ones((1, 8, 1)), jnp.arange(8.0).reshape(1, 1, 8))
    close(circuits.composition(one, Factored(one.right.mT, one.left.mT)), 1, rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_random_composition_is_what_noise_has(getkey):
    """E score² = 1 / d exactly, for circuits at a random rotation to each other."""
    writer, reader = layer(getkey(), 1, 2, 12), layer(getkey(), 3, 4, 12)
    mean, std = circuits.random_composition(writer, reader, key=getkey(), samples=4000)
    close(mean**2 + std**2, 1 / 12, rtol=0.03)
    rng, norm = np.random.default_rng(0), np.linalg.norm
    w = rng.standard_normal((2000, 12, 2)) @ rng.standard_normal((2000, 2, 12))
    r = rng.standard_normal((2000, 12, 4)) @ rng.standard_normal((2000, 4, 12))
    size = lambda m: norm(m, axis=(1, 2))
    scores = size(r @ w) / size(r) / size(w)
    close([mean, std], [np.mean(scores), np.std(scores)], rtol=0.05)


@pytest.mark.parametrize(
    "settings",
    [{"causal": False}, {"qkv_bias": True, "mlp_ratio": 1.0, "scale": 0.4}],
)
def test_folded_norms_change_nothing(settings, getkey):
    model, inputs = probe(TransformerConfig().positions, getkey, **settings)
    model = shaken(model, getkey())
    folded = fold_layer_norms(model)
    (logits, record), (ours, after) = (
        opto.run(m, *inputs, record="**") for m in (model, folded)
    )
    close(ours, logits, atol=1e-5)
    assert [*after] == [*record]
    for name in (n for n in record if not n.endswith("normed")):
        close(after[name], record[name], atol=1e-4, rtol=1e-4, err_msg=name)
    norms = [folded.final_norm, *(b.attn_norm for b in folded.blocks)]
    norms += [b.mlp_norm for b in folded.blocks if b.mlp is not None]
    assert len(norms) == (5 if "mlp_ratio" in settings else 3)
    for norm in norms:
        assert jnp.all(norm.weight == 1)
        assert jnp.all(norm.bias == 0)
    again = fold_layer_norms(folded)
    assert eqx.tree_equal(again, folded)


def test_a_model_without_norms_is_already_folded(getkey):
    model, _ = probe(NoPositions(), getkey, layer_norm=False, mlp_ratio=1.0)
    assert eqx.tree_equal(fold_layer_norms(model), model)


# Four pairs with burstiness two, and a query of the first class: a b a b, then a.
ROLE, PAIR = np.array([EXEMPLAR, LABEL] * 4 + [QUERY]), np.arange(9) // 2
LABELS = np.array([3, 1, 3, 1, 3])
CLASSES = np.array([10, 20, 10, 20, 10])
UNIFORM = (np.tri(9) / np.arange(1, 10)[:, None]).astype(np.float32)


def attending(*keys):
    """The query attends equally to these tokens, every other token to itself."""
    row = jnp.zeros(9).at[jnp.array(keys)].set(1 / len(keys))
    return jnp.eye(9).at[-1].set(row)


def test_previous_token():
    perfect = jnp.eye(9, k=-1).at[0, 0].set(1)
    every_label = jnp.where((ROLE == LABEL)[:, None], perfect, jnp.eye(9))
    pattern = jnp.stack([perfect, every_label, UNIFORM, jnp.eye(9)])
    alike = (sum(1 / n for n in range(1, 10)) - 1) / 8
    close(heads.previous_token(pattern), [1, 0.5, alike, 0], rtol=1e-6)
    corrected = [1 - alike, 0.5 - alike, 0, -alike]
    close(heads.previous_token_excess(pattern), corrected, atol=1e-6)
    alike = (1 / 2 + 1 / 4 + 1 / 6 + 1 / 8) / 4
    labels = jnp.asarray(ROLE == LABEL)
    close(heads.previous_token(pattern, labels), [1, 1, alike, 0], rtol=1e-6)
    corrected = [1 - alike, 1 - alike, 0, -alike]
    close(heads.previous_token_excess(pattern, labels), corrected, atol=1e-6)
    # Without a causal mask each token sees all 9 tokens, not only the earlier ones.
    everywhere = jnp.full((1, 9, 9), 1 / 9)
    close(heads.previous_token_excess(everywhere), [0], atol=1e-6)
    close(heads.previous_token_excess(everywhere, labels), [0], atol=1e-6)
    # The first token has no previous token.
    first = labels.at[0].set(True)
    close(heads.previous_token(pattern, first), [1, 1, alike, 0], rtol=1e-6)


def test_induction_strength():
    """Labels of the query's class are at 1 and 5, the others at 3 and 7."""
    pattern = jnp.stack(
        [
            attending(1, 5),
            attending(5),
            attending(3, 7),
            attending(1, 5, 3),
            attending(1, 0, 2, 4),
            UNIFORM,
        ]
    )
    role, pair, label = map(jnp.asarray, (ROLE, PAIR, LABELS))
    ours = induction_strength(pattern, role, pair, label)
    close(ours, [1, 1, -1, 1 / 3, 1 / 4, 0], atol=1e-6)
    # Three of the four labels equal the query's.
    ours = induction_strength(pattern, role, pair, jnp.array([3, 3, 3, 1, 3]))
    close(ours[-1], (3 - 1) / 9, atol=1e-6)
    nowhere = induction_strength(pattern, role, pair, label.at[-1].set(0))
    close(nowhere, [-1, -1, -1, -1, -1 / 4, -4 / 9], atol=1e-6)


def test_induction_strength_goes_by_role():
    """The query comes first, and labels come before their exemplars."""
    role = jnp.array([QUERY, LABEL, EXEMPLAR, LABEL, EXEMPLAR])
    pair = jnp.array([2, 0, 0, 1, 1])
    pattern = jnp.array([[[0.1, 0.4, 0.1, 0.3, 0.1]] + [[0.2] * 5] * 4])
    label = jnp.array([7, 8, 7])
    close(induction_strength(pattern, role, pair, label), [0.1], atol=1e-6)
    none = jnp.where(role == QUERY, EXEMPLAR, role)
    assert np.isnan(induction_strength(pattern, none, pair, label))


@pytest.mark.parametrize("kind", ["ids", "vectors"])
def test_duplicate_token(kind, getkey):
    """Exemplars of the query's class are at 0 and 4; the query is at 8."""
    role, pair, exemplar = map(jnp.asarray, (ROLE, PAIR, CLASSES))
    if kind == "vectors":
        exemplar = jax.random.normal(getkey(), (21, 3))[exemplar]
    pattern = jnp.stack([attending(0, 4), attending(8), attending(0, 2, 1), UNIFORM])
    ours = duplicate_token(pattern, role, pair, exemplar)
    close(ours, [1, 0, 1 / 3, 2 / 9], atol=1e-6)
    # An exemplar of the same class that differs in one entry is a different exemplar.
    other = exemplar.at[0].add(1) if kind == "ids" else exemplar.at[0, 1].add(0.1)
    ours = duplicate_token(pattern, role, pair, other)
    close(ours, [1 / 2, 0, 0, 1 / 9], atol=1e-6)


def test_entropy():
    ours = heads.entropy(jnp.stack([jnp.eye(9), UNIFORM, jnp.full((9, 9), 1 / 9)]))
    close(ours, [0, np.log(np.arange(1, 10)).mean(), np.log(9)], atol=1e-6)
    rows = jnp.arange(9) > 4
    expected = np.log(np.arange(6, 10)).mean()
    close(heads.entropy(jnp.asarray(UNIFORM[None]), rows), [expected], rtol=1e-6)
    close(heads.entropy(jnp.asarray(UNIFORM[None, -1:])), [np.log(9)], rtol=1e-6)


def test_detectors_of_a_model(getkey):
    """They read the model's sites, under `vmap`."""
    model, _ = probe(NoPositions(), getkey)
    names = [f"tokens.{n}" for n in ("role", "pair", "label", "exemplar")]
    examples = jax.random.normal(getkey(), (3, 7, 7)).at[:, 0].set(1.0)
    examples = examples.at[:, -1].set(1.0)
    labels = jax.random.randint(getkey(), (3, 7), 0, 3)
    site = "blocks.1.attn.pattern"
    _, record = opto.run(model, examples, labels, record=[site, *names])
    pattern, role, pair, label, exemplar = (record[x] for x in (site, *names))
    ours = jax.jit(jax.vmap(induction_strength))(pattern, role, pair, label)
    like = np.where(labels[:, :-1] == labels[:, -1:], 1, -1)
    theirs = np.einsum("bhp,bp->bh", pattern[:, :, -1, 1::2], like)
    close(ours, theirs, atol=1e-6)
    ours = jax.jit(jax.vmap(duplicate_token))(pattern, role, pair, exemplar)
    close(ours, pattern[:, :, -1, 0], atol=1e-6)


def ones(*shape):
    return jnp.ones(shape)


def one():
    return Factored(ones(1, 4, 2), ones(1, 2, 4))


def head(d_model):
    return HeadWeights(*[ones(1, 2, d_model)] * 3, ones(1, d_model, 2))


MISFITS = {
    "got shapes (3, 2) and (3, 4)": lambda: Factored(ones(3, 2), ones(3, 4)),
    "got shapes (5, 3, 2) and (2, 4)": lambda: Factored(ones(5, 3, 2), ones(2, 4)),
    "eigenvalues are of square matrices, got shape (3, 4)": lambda: Factored(
        ones(3, 2), ones(2, 4)
    ).eigenvalues(),
    "got shapes (4, 3) and (1, 4, 4)": lambda: ones(4, 3) @ one(),
    "(1, 4, 4) and (5, 4)": lambda: one() @ Factored(ones(5, 1), ones(1, 4)),
    "one batch axis, the heads; got shapes (1, 4, 4) and (4, 4)": lambda: (
        circuits.composition(one(), one()[0])
    ),
    "got shapes (1, 6, 6) and (1, 4, 4)": lambda: circuits.k_composition(
        head(4), head(6)
    ),
    "got shapes (3, 5) and (1, 4, 3)": lambda: circuits.alignment(
        one(), ones(3, 4), ones(3, 5)
    ),
    "pattern is [head, seq, kv_seq] of one sequence": lambda: heads.previous_token(
        UNIFORM
    ),
    "rows has one entry for each of 9 tokens, got shape (8,)": lambda: (
        heads.previous_token(UNIFORM[None], jnp.ones(8, bool))
    ),
    "role has one entry for each of 9 tokens, got shape (8,)": lambda: (
        induction_strength(UNIFORM[None], ROLE[1:], PAIR, LABELS)
    ),
    "pair has one entry for each of 9 tokens, got shape (1,)": lambda: duplicate_token(
        UNIFORM[None], ROLE, PAIR[:1], CLASSES
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", MISFITS)
def test_what_does_not_fit(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MISFITS[message]()
