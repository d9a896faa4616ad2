"""What heads do to the direction of a label, compared with random directions.

For the models of `icl.models.encoder` with labels in their tokens.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..checks import check_seed, positive
from ..models.encoder import Encoder, InterleavedEmbedding, SummedEmbedding
from ._layers import stacked
from ._measure import OfModel
from ._text import register


_WEIGHTS: Any = {"reads": "weights", "needs": ("embedding", "blocks", "head")}


@register
def ov_alignment() -> OfModel:
    r"""Whether each head writes labels along the read-out, in [-1, 1]: `[layer, head]`.

    The cosine between $W_O W_V e$ and the weights of the logit, where $e$ is the
    embedding of label 1 minus that of label 0 (arXiv 2603.10573). `ov_alignment_p`
    says how often random directions reach it.
    """
    fn = lambda model, task, batch, edits: alignment(model, label_direction(model))
    label = "cosine of a head's label direction\nand the read-out"
    return OfModel(fn, "layer head", label, **_WEIGHTS)


@register
def ov_alignment_p(samples: int = 10_000, seed: int = 0) -> OfModel:
    r"""How often a random direction is aligned as well as labels are: `[layer, head]`.

    The share of directions, uniform on the sphere, for which $|\cos|$ of
    `ov_alignment` is at least that of the labels; the labels' own direction counts too,
    so the least value is 1 / (`samples` + 1) (Phipson and Smyth 2010).

    **Arguments:** `samples`: The number of random directions. `seed`: Of these.
    """
    positive("samples", samples)
    check_seed("seed", seed)

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        own = jnp.abs(alignment(model, label_direction(model)))
        random = random_alignments(model, samples, key=jax.random.key(seed))
        return (1 + (jnp.abs(random) >= own).sum(0)) / (samples + 1)

    label = "p value of a head's label direction"
    return OfModel(fn, "layer head", label, **_WEIGHTS)


def random_alignments(
    model: Encoder, samples: int, *, key: PRNGKeyArray
) -> Float[Array, "sample layer head"]:
    """`alignment` of random directions: what heads do to any direction."""
    directions = jax.random.normal(key, (samples, model.head.weight.shape[1]))
    return jax.vmap(lambda one: alignment(model, one))(directions)


def alignment(
    model: Encoder, direction: Float[Array, " d_model"]
) -> Float[Array, "layer head"]:
    """The cosine between what each head writes for a direction, and the read-out."""
    read = model.head.weight[0]

    def of_layer(block: Any) -> Float[Array, " head"]:
        heads = block.attn.head_weights
        values = heads.value @ direction
        written = jnp.einsum("hmd,hd->hm", heads.output, values)
        lengths = jnp.linalg.norm(written, axis=-1) * jnp.linalg.norm(read)
        return written @ read / lengths

    return stacked([of_layer(block) for block in model.blocks])


def label_direction(model: Encoder) -> Float[Array, " d_model"]:
    """The embedding of label 1 minus that of label 0.

    **Raises:** `ValueError` if the model does not see labels.
    """
    embedding = model.embedding
    if isinstance(embedding, InterleavedEmbedding):
        return embedding.y.weight[1] - embedding.y.weight[0]
    if isinstance(embedding, SummedEmbedding) and embedding.y is not None:
        return embedding.y.weight[:, 0]
    raise ValueError("the model's tokens have no labels, so labels have no direction")
