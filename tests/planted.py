"""A two-layer induction model built by hand, so its circuit is known.

The residual stream has five parts: the token's position (one-hot), its exemplar, the
previous token's exemplar, its label, and the answer. Head 0:0 copies the previous
token's exemplar. Head 1:0 finds the label whose previous token is the query's exemplar,
and writes that label as the answer. All other heads write small noise.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from icl.models import exemplar_label_interface, TransformerConfig
from icl.models._embedding import ExemplarLabelEmbedding
from icl.models._positions import Learned


CLASSES, LABELS, PAIRS, HEADS = 4, 4, 2, 2
SEQ = 2 * PAIRS + 1
# Where each part of the stream begins, and the total width.
PLACE, SELF, BEFORE, NAME, ANSWER = np.cumsum([0, SEQ, CLASSES, CLASSES, LABELS])
D_MODEL = 22
D_HEAD = D_MODEL // HEADS

# Head 0:0 attends by position only, and positions are the same in all sequences.
CIRCUIT = {
    ("embed", "0:0.v"),
    ("embed", "1:0.q"),
    ("0:0", "1:0.k"),
    ("embed", "1:0.v"),
    ("1:0", "final"),
}


def induction_model(noise=0.01):
    """The model; exemplars are one-hot vectors."""
    config = TransformerConfig(
        num_layers=2,
        d_model=D_MODEL,
        num_heads=HEADS,
        layer_norm=False,
        positions=Learned(SEQ),
        scale=1.0,
    )
    build = eqx.filter_jit(config.build)
    interface = exemplar_label_interface(LABELS, dim=CLASSES)
    model = build(interface, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    heads = np.zeros((2, 4, HEADS, D_HEAD, D_MODEL))  # layer, q k v o, head
    heads[:, :, 1] = noise * rng.normal(size=(2, 4, D_HEAD, D_MODEL))
    # 0:0 attends from each token to the one before it, and copies its exemplar.
    for t in range(1, SEQ):
        heads[0, 0, 0, t, PLACE + t] = heads[0, 1, 0, t, PLACE + t - 1] = 5.0
    for c in range(CLASSES):
        heads[0, 2, 0, c, SELF + c] = heads[0, 3, 0, c, BEFORE + c] = 1.0
        # 1:0 finds the token that follows the query's exemplar.
        heads[1, 0, 0, c, SELF + c] = heads[1, 1, 0, c, BEFORE + c] = 5.0
    for i in range(LABELS):
        heads[1, 2, 0, i, NAME + i] = heads[1, 3, 0, i, ANSWER + i] = 4.0
    return eqx.tree_at(
        lambda m: (m.embedding, m.unembed.weight, m.unembed.bias, *_weights(m)),
        model,
        (
            _embedding(model.embedding),
            _unembedding(),
            jnp.zeros(LABELS),
            *(
                jnp.asarray(heads[i, j].reshape(D_MODEL, D_MODEL), jnp.float32)
                for i in range(2)
                for j in range(3)
            ),
            *(
                jnp.asarray(heads[i, 3].reshape(D_MODEL, D_MODEL).T, jnp.float32)
                for i in range(2)
            ),
        ),
    )


def sequences(seed, count):
    """Examples and labels of two classes; the query is of one of them."""
    rng = np.random.default_rng(seed)
    classes = np.array([rng.permutation(CLASSES)[:PAIRS] for _ in range(count)])
    labels = np.array([rng.permutation(LABELS)[:PAIRS] for _ in range(count)])
    which = rng.integers(PAIRS, size=count)
    rows = np.arange(count)
    classes = np.concatenate([classes, classes[rows, which][:, None]], 1)
    labels = np.concatenate([labels, labels[rows, which][:, None]], 1)
    return jnp.eye(CLASSES)[classes], jnp.asarray(labels)


def logit_difference(logits, examples, labels):
    """The correct label's logit minus the mean of the others, averaged."""
    query = logits[:, -1]
    correct = jnp.take_along_axis(query, labels[:, -1:], 1)[:, 0]
    others = (query.sum(-1) - correct) / (query.shape[-1] - 1)
    return jnp.mean(correct - others)


def _weights(model):
    layers = [b.attn for b in model.blocks]
    inputs = [w for a in layers for w in (a.query, a.key, a.value)]
    return [x.weight for x in (*inputs, *(a.output for a in layers))]


def _embedding(embedding: ExemplarLabelEmbedding):
    exemplar = np.zeros((D_MODEL, CLASSES))
    exemplar[SELF : SELF + CLASSES] = np.eye(CLASSES)
    label = np.zeros((LABELS, D_MODEL))
    label[:, NAME : NAME + LABELS] = np.eye(LABELS)
    place = np.zeros((SEQ, D_MODEL))
    place[:, PLACE : PLACE + SEQ] = np.eye(SEQ)
    return eqx.tree_at(
        lambda e: (
            e.exemplar.weight,
            e.exemplar.bias,
            e.label.weight,
            e.positions.table,
        ),
        embedding,
        tuple(
            jnp.asarray(x, jnp.float32)
            for x in (exemplar, np.zeros(D_MODEL), label, place)
        ),
    )


def _unembedding():
    weight = np.zeros((LABELS, D_MODEL))
    weight[:, ANSWER : ANSWER + LABELS] = np.eye(LABELS)
    return jnp.asarray(weight, jnp.float32)
