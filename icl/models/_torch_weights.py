"""Initial weights like those of a PyTorch encoder."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ._positions import LearnedPositions


@dataclasses.dataclass(frozen=True)
class TorchWeights:
    r"""As in PyTorch's `TransformerEncoder`, and as in the code of arXiv 2603.10573.

    A linear layer's weights and biases are uniform in $\pm 1/\sqrt{n}$ with $n$ inputs.
    Queries, keys and values are one matrix of $3 d \times d$, uniform in
    $\pm\sqrt{6 / 4 d}$, which is 1.22 times as wide as other layers; all biases of
    attention are 0. A table of labels is standard normal, and positions have standard
    deviation .02. All blocks start as copies of the first.
    """

    def draw(self, model: Any, *, key: PRNGKeyArray) -> Any:
        """An encoder of the same shape with new weights."""
        block_key, position_key, rest_key = jax.random.split(key, 3)
        first = self._block(model.blocks[0], key=block_key)
        blocks = (first,) * len(model.blocks)
        others = eqx.tree_at(lambda m: m.blocks, model, ())
        model = eqx.tree_at(lambda m: m.blocks, _layers(others, rest_key), blocks)
        if not isinstance(model.positions, LearnedPositions):
            return model
        table = 0.02 * jax.random.normal(position_key, model.positions.table.shape)
        return eqx.tree_at(lambda m: m.positions.table, model, table)

    def _block(self, block: Any, *, key: PRNGKeyArray) -> Any:
        layers_key, *keys = jax.random.split(key, 4)
        block = _layers(block, layers_key)
        three = lambda b: [b.attn.query, b.attn.key, b.attn.value]
        bound = math.sqrt(6 / (4 * block.attn.query.in_features))
        weights = lambda b: [layer.weight for layer in three(b)]
        joint = [
            _uniform(w, bound, k) for w, k in zip(weights(block), keys, strict=True)
        ]
        biases = lambda b: [layer.bias for layer in (*three(b), b.attn.output)]
        zeros = [jnp.zeros_like(bias) for bias in biases(block)]
        return eqx.tree_at(biases, eqx.tree_at(weights, block, joint), zeros)


def _layers(tree: Any, key: PRNGKeyArray) -> Any:
    """The same with new linear layers and tables."""
    ours = lambda x: isinstance(x, eqx.nn.Linear | eqx.nn.Embedding)
    leaves, structure = jax.tree.flatten(tree, is_leaf=ours)
    keys = jax.random.split(key, len(leaves))
    drawn = [_layer(x, k) if ours(x) else x for x, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def _layer(layer: Any, key: PRNGKeyArray) -> Any:
    if isinstance(layer, eqx.nn.Embedding):
        table = jax.random.normal(key, layer.weight.shape)
        return eqx.tree_at(lambda x: x.weight, layer, table)
    bound = 1 / math.sqrt(layer.in_features)
    arrays = lambda x: [a for a in (x.weight, x.bias) if a is not None]
    keys = jax.random.split(key)
    new = [_uniform(a, bound, k) for a, k in zip(arrays(layer), keys, strict=False)]
    return eqx.tree_at(arrays, layer, new)


def _uniform(like: Array, bound: float, key: PRNGKeyArray) -> Array:
    return jax.random.uniform(key, like.shape, like.dtype, -bound, bound)
