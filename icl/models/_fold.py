"""The same model with the scales and offsets of its LayerNorms in the next layers."""

import dataclasses
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp

from ._exemplar_label import ExemplarLabelModel
from ._gpt2 import GPT2Points, GPT2Tokens
from ._init import linear_with
from ._transformer import TransformerBlock
from .attention import Attention


Model = TypeVar("Model", ExemplarLabelModel, GPT2Points, GPT2Tokens)


def fold_layer_norms(model: Model) -> Model:
    r"""A model that computes the same, but its norms have scale one and offset zero.

    A layer that reads a norm, $W (g \odot n + b) + c$, becomes $W'n + c'$ with
    $W' = W \operatorname{diag}(g)$ and $c' = W b + c$. These layers are queries, keys,
    values, the first layer of an MLP and the unembedding; afterwards all have a bias.
    Use these weights for `opto.circuits`. A model without norms is returned unchanged.
    An unembedding that was tied to the embedding is its own layer afterwards.
    This works for every kind of attention, because all kinds read the stream through
    queries, keys and values.

    **Raises:** `ValueError` for a model that reads the stream in another way.
    """
    if not isinstance(model, ExemplarLabelModel | GPT2Points | GPT2Tokens):
        raise _cannot(model)
    final_norm, unembed = _fold(model.final_norm, model.unembed)
    blocks = tuple(_fold_block(block) for block in model.blocks)
    last = "untied" if isinstance(model, GPT2Tokens) else "unembed"
    new: dict[str, Any] = {last: unembed, "final_norm": final_norm}
    return dataclasses.replace(model, blocks=blocks, **new)


def _fold_block(block: TransformerBlock) -> TransformerBlock:
    attn = block.attn if isinstance(block, TransformerBlock) else block
    if not isinstance(attn, Attention):
        raise _cannot(attn)
    attn_norm, *layers = _fold(block.attn_norm, attn.query, attn.key, attn.value)
    attn = eqx.tree_at(lambda a: (a.query, a.key, a.value), attn, tuple(layers))
    block = dataclasses.replace(block, attn_norm=attn_norm, attn=attn)
    if block.mlp is None or block.mlp_norm is None:
        return block
    mlp_norm, expand = _fold(block.mlp_norm, block.mlp.expand)
    mlp = eqx.tree_at(lambda m: m.expand, block.mlp, expand)
    return dataclasses.replace(block, mlp_norm=mlp_norm, mlp=mlp)


def _cannot(got: object) -> ValueError:
    wanted = "queries, keys, values and MLPs of pre-norm transformers"
    return ValueError(f"can only fold norms into {wanted}, got {type(got).__name__}")


def _fold(norm: eqx.Module, *layers: eqx.nn.Linear) -> tuple:
    """The norm without scale and offset, and the layers after it that absorb them."""
    if not isinstance(norm, eqx.nn.LayerNorm):
        return norm, *layers
    bare = eqx.tree_at(lambda n: n.weight, norm, replace_fn=jnp.ones_like)
    bare = eqx.tree_at(lambda n: n.bias, bare, replace_fn=jnp.zeros_like)
    return bare, *(_absorb(layer, norm.weight, norm.bias) for layer in layers)


def _absorb(layer: eqx.nn.Linear, scale, offset) -> eqx.nn.Linear:
    bias = layer.weight @ offset
    if layer.bias is not None:
        bias = bias + layer.bias
    return linear_with(layer.weight * scale, bias)
