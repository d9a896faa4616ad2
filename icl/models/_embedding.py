"""Embedding of a sequence of (exemplar, label) pairs and a query."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ..roles import EXEMPLAR, LABEL, QUERY
from ._init import linear
from ._layers import looked_up, per_token
from ._positions import AbstractPositions


class ExemplarLabelEmbedding(eqx.Module):
    """Tokens exemplar, label, exemplar, label, …, query, with positions.

    Vectors go through a linear layer with bias. Exemplars that are class ids (one-hot
    data) and labels are looked up in tables.

    It also names which token is what, for edits that need to know (`icl.roles`):
    `tokens.exemplar` and `tokens.label` are the inputs. `tokens.role` is `EXEMPLAR`,
    `LABEL` or `QUERY` for each token, and `tokens.pair` is the exemplar it belongs to.
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
        tokens = tap.scope("tokens")
        axes = "exemplar dim" if examples.ndim == 2 else "exemplar"
        examples = tokens("exemplar", examples, axes)
        labels, role, pair, unedited = name_tokens(labels, tokens)
        x = self._interleave(examples, labels, role, pair, unedited)
        x = tap("tok_embed", x, "seq d_model")
        return tap("embed", self.positions.embed(x), "seq d_model")

    def _interleave(self, examples, labels, role, pair, unedited: bool):
        context = len(examples) - 1
        exemplars = (
            looked_up(self.exemplar.weight, examples)
            if isinstance(self.exemplar, eqx.nn.Embedding)
            else per_token(self.exemplar, examples)
        )
        targets = looked_up(self.label.weight, labels[:context])
        if unedited:
            # Interleaving is faster than gathering.
            pairs = jnp.stack([exemplars[:context], targets], 1)
            flat = pairs.reshape(2 * context, exemplars.shape[-1])
            return jnp.concatenate([flat, exemplars[context:]])
        # The index of the query's label is out of range, which gives NaN.
        label = looked_up(targets, pair)
        is_label = (role == LABEL)[:, None]
        return jnp.where(is_label, label, looked_up(exemplars, pair))


def name_tokens(
    labels: Int[Array, " exemplar"], tokens: Tap
) -> tuple[Int[Array, " exemplar"], Int[Array, " seq"], Int[Array, " seq"], bool]:
    """Names the labels, and which token is what.

    **Returns:** The labels, the role of each token, the exemplar that it belongs to,
    and whether the tokens are in their usual order: nobody edited role or pair.
    """
    labels = tokens("label", labels, "exemplar")
    context = len(labels) - 1
    layout = jnp.asarray(_roles(context)), jnp.arange(2 * context + 1) // 2
    role = tokens("role", layout[0], "seq")
    pair = tokens("pair", layout[1], "seq")
    return labels, role, pair, role is layout[0] and pair is layout[1]


def _roles(context: int) -> Int[np.ndarray, " seq"]:
    """The role of each token: exemplar, label, …, query."""
    return np.array([EXEMPLAR, LABEL] * context + [QUERY])


def _check_inputs(layer: eqx.Module, examples: Array, labels: Array) -> None:
    dim = getattr(layer, "in_features", None)
    if dim is not None and examples.shape[-1] != dim:
        got = examples.shape[-1]
        raise ValueError(f"examples must have dim {dim}, as in training, got {got}")
    if len(labels) != len(examples):
        got = f"{len(labels)} for {len(examples)} examples"
        raise ValueError(f"labels must have one label for each example, got {got}")


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

    The table of ids is a LeCun-normal layer on one-hot vectors. Labels are normal with
    standard deviation 0.02, truncated at twice that (Singh et al. 2024).
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
