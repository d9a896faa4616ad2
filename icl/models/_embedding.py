"""Embedding of a sequence of (exemplar, label) pairs and a query."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ._init import linear, per_token
from ._positions import AbstractPositions


class ExemplarLabelEmbedding(eqx.Module):
    """Tokens exemplar, label, exemplar, label, …, query, with positions.

    Vectors go through a linear layer with bias; exemplars that are class ids (one-hot
    data) and labels are looked up in tables.
    """

    exemplar: eqx.nn.Linear | eqx.nn.Embedding
    label: eqx.nn.Embedding
    positions: AbstractPositions

    def __call__(
        self,
        examples: Float[Array, "exemplar dim"] | Int[Array, " exemplar"],
        labels: Int[Array, " exemplar"],
        *,
        tap: Tap = identity,
    ) -> Float[Array, "seq d_model"]:
        """Embeds one sequence; the query's own label, the last, is not read."""
        _check_inputs(self.exemplar, examples, labels)
        context = len(examples) - 1
        exemplars = per_token(self.exemplar, examples)
        # A label that is none of the model's is NaN, not the nearest there is.
        targets = self.label.weight.at[labels[:context]].get(
            mode="fill", fill_value=jnp.nan, wrap_negative_indices=False
        )
        # Gathering labels, rather than multiplying one-hots, and interleaving.
        pairs = jnp.stack([exemplars[:context], targets], 1)
        tokens = pairs.reshape(2 * context, exemplars.shape[-1])
        x = jnp.concatenate([tokens, exemplars[context:]])
        return tap("embed", self.positions.embed(x), "seq d_model")


def _check_inputs(layer: eqx.Module, examples: Array, labels: Array) -> None:
    dim = getattr(layer, "in_features", None)
    if dim is not None and examples.shape[-1] != dim:
        got = examples.shape[-1]
        raise ValueError(f"examples must have dim {dim}, as in training, got {got}")
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(f"labels must be whole numbers, got {labels.dtype}")
    if len(labels) != len(examples):
        got = f"{len(labels)} for {len(examples)} examples"
        raise ValueError(f"labels has one label for each example, got {got}")


def embedding(
    num_exemplars: int | None,
    dim: int | None,
    num_labels: int,
    d_model: int,
    positions: AbstractPositions,
    *,
    init_scale: float,
    key: PRNGKeyArray,
) -> ExemplarLabelEmbedding:
    """A freshly initialised embedding of vectors (`dim`) or ids (`num_exemplars`).

    The table of ids is a LeCun-normal layer on one-hot vectors; labels are normal
    with standard deviation 0.02, truncated at twice that (Singh et al. 2024).
    """
    exemplar_key, label_key = jax.random.split(key)
    if dim is not None:
        exemplar = linear(dim, d_model, bias=True, scale=init_scale, key=exemplar_key)
    else:
        init = jax.nn.initializers.lecun_normal()
        table = init_scale * init(exemplar_key, (num_exemplars, d_model))
        exemplar = eqx.nn.Embedding(weight=table)
    init = jax.nn.initializers.truncated_normal(0.02)
    label = eqx.nn.Embedding(weight=init(label_key, (num_labels, d_model)))
    return ExemplarLabelEmbedding(exemplar, label, positions)
