"""Checkpoints of icl-dynamics as our models."""

import functools
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ...models import (
    Attention,
    exemplar_label_interface,
    ExemplarLabelEmbedding,
    ExemplarLabelModel,
    Learned,
    MLP,
    Positions,
    Rope,
    Sinusoidal,
    TransformerBlock,
    TransformerConfig,
)
from .._config import read_file
from ._file import Weights
from ._options import Options


Layer = TypeVar("Layer", bound=eqx.Module)

# Their learned positions have this length for any context.
_MAX_LENGTH = 32


def load_run(
    folder: str | os.PathLike, checkpoint: int = -1
) -> tuple[ExemplarLabelModel, dict[str, Any]]:
    """Reads a model of an icl-dynamics run.

    **Arguments:**

    - `folder`: The run, with `config.json` and `checkpoints/<sequences seen>.eqx`.
    - `checkpoint`: Sequences seen; -1 is the last.

    **Returns:**

    The model, and the run's config as it is in the file.

    **Raises:** `ValueError` if there is no such run or checkpoint; also as
    `load_model`.
    """
    config = read_file(Path(folder) / "config.json")
    files = checkpoint_files(folder)
    if checkpoint == -1:
        return load_model(config, files[max(files)]), config
    if checkpoint not in files:
        raise ValueError(f"{folder} has no checkpoint {checkpoint}; {_listing(files)}")
    return load_model(config, files[checkpoint]), config


def load_model(
    config: dict[str, Any], checkpoint_path: str | os.PathLike
) -> ExemplarLabelModel:
    """Reads one checkpoint.

    The file says what the structure is, and the config has to agree, unless it is of a
    run that continues another one (`load_from_ckpt_cfg`): such a run has the model of
    the other. Vectors go through a linear layer, as in ours. For one-hot data
    (`data_type`), which our models get as ids, that layer is the table of embeddings.

    **Arguments:**

    - `config`: The contents of the run's `config.json`.
    - `checkpoint_path`: The `.eqx` file.

    **Raises:** `ValueError` for a config that disagrees with the file or that our
    models cannot have, and for a file that cannot be read, is cut short, contradicts
    itself or has another structure; the error has the weight's name, its shape and the
    shape wanted.
    """
    return open_model(config, Path(checkpoint_path))[0]


def open_model(
    config: Mapping[str, Any], path: Path
) -> tuple[ExemplarLabelModel, Options]:
    """As `load_model`; also the options of the run, with those of the model."""
    weights = Weights(path)
    options = weights.options(config)
    assert options.model_output_classes is not None  # The file says it.
    size = "num_exemplars" if options.data_type == "onehot" else "dim"
    template = _template(
        model_config(options),
        options.model_output_classes,
        **{size: weights.num_inputs()},
    )
    return _filled(template, weights), options


def model_config(options: Options) -> TransformerConfig:
    """The structure of a model from options that its file said.

    **Raises:** `ValueError` if ours cannot have it.
    """
    return TransformerConfig(
        num_layers=options.depth,
        d_model=options.d_model,
        num_heads=options.num_heads,
        mlp_ratio=options.mlp_ratio,
        layer_norm=not options.no_norm,
        causal=not options.not_causal,
        positions=_positions(options),
        init_scale=options.init_rescale,
    )


def checkpoint_files(folder: str | os.PathLike) -> dict[int, Path]:
    """The checkpoint files of a run by sequences seen, ascending.

    **Raises:** `ValueError` if there are none.
    """
    place = Path(folder) / "checkpoints"
    # The width of the names varies, because scripts make some checkpoints themselves.
    files = {int(f.stem): f for f in place.glob("*.eqx") if f.stem.isdecimal()}
    if not files:
        raise ValueError(f"{place} has no checkpoints named <sequences seen>.eqx")
    return dict(sorted(files.items()))


def _listing(files: dict[int, Path]) -> str:
    most, numbers = 10, list(files)
    if len(numbers) <= most:
        return f"it has {', '.join(map(str, numbers))}"
    first = ", ".join(map(str, numbers[: most - 1]))
    return f"it has {len(numbers)}: {first}, …, {numbers[-1]}"


def _positions(options: Options) -> Positions:
    kinds = {
        "rope": lambda: Rope(options.sin_time),
        "sinusoidal": lambda: Sinusoidal(options.sin_time),
        "ape": lambda: Learned(_MAX_LENGTH),
    }
    return kinds[options.pos_embedding_type]()


# A run has hundreds of checkpoints of one structure.
@functools.lru_cache(maxsize=8)
def _template(
    config: TransformerConfig, num_labels: int, **size: int
) -> ExemplarLabelModel:
    """A model with shapes instead of arrays."""
    interface = exemplar_label_interface(num_labels, **size)
    build = functools.partial(config.build, interface)
    return eqx.filter_eval_shape(lambda: build(key=jax.random.key(0)))


def _filled(model: ExemplarLabelModel, weights: Weights) -> ExemplarLabelModel:
    """The template with the weights; these lines are in the order of the file."""
    embedding = _embedding(model.embedding, weights)
    blocks = tuple(
        _block(block, weights, f"blocks.{i}") for i, block in enumerate(model.blocks)
    )
    final_norm = _affine(model.final_norm, weights, "final_norm")
    unembed = _affine(model.unembed, weights, "unembed")
    return eqx.tree_at(
        lambda m: (m.embedding, m.blocks, m.final_norm, m.unembed),
        model,
        (embedding, blocks, final_norm, unembed),
    )


def _embedding(
    embedding: ExemplarLabelEmbedding, weights: Weights
) -> ExemplarLabelEmbedding:
    if isinstance(embedding.exemplar, eqx.nn.Linear):
        exemplar = _affine(embedding.exemplar, weights, "exemplar")
    else:
        exemplar = _table(embedding.exemplar, "weight", weights, "exemplar.weight")
    label = _table(embedding.label, "weight", weights, "label.weight")
    positions = embedding.positions
    if hasattr(positions, "table"):
        positions = _table(positions, "table", weights, "positions.weight")
    return eqx.tree_at(
        lambda e: (e.exemplar, e.label, e.positions),
        embedding,
        (exemplar, label, positions),
    )


def _block(block: TransformerBlock, weights: Weights, name: str) -> TransformerBlock:
    attn_norm = _affine(block.attn_norm, weights, f"{name}.norm1")
    attn = _attention(block.attn, weights, f"{name}.attn")
    block = eqx.tree_at(lambda b: (b.attn_norm, b.attn), block, (attn_norm, attn))
    if not isinstance(block.mlp, MLP) or block.mlp_norm is None:
        return block
    mlp_norm = _affine(block.mlp_norm, weights, f"{name}.norm2")
    mlp = _mlp(block.mlp, weights, f"{name}.mlp")
    return eqx.tree_at(lambda b: (b.mlp_norm, b.mlp), block, (mlp_norm, mlp))


def _attention(attn: Attention, weights: Weights, name: str) -> Attention:
    d_model = attn.output.weight.shape[0]
    qkv = weights.take(f"{name}.qkv.weight", (3 * d_model, d_model))
    output = weights.take(f"{name}.proj.weight", (d_model, d_model))
    return eqx.tree_at(
        lambda a: [x.weight for x in (a.query, a.key, a.value, a.output)],
        attn,
        [*jnp.split(qkv, 3), output],
    )


def _mlp(mlp: MLP, weights: Weights, name: str) -> MLP:
    expand = _affine(mlp.expand, weights, f"{name}.fc1")
    contract = _affine(mlp.contract, weights, f"{name}.fc2")
    return eqx.tree_at(lambda m: (m.expand, m.contract), mlp, (expand, contract))


def _affine(layer: Layer, weights: Weights, name: str) -> Layer:
    """A linear layer or norm with its weight and bias; an identity is unchanged."""
    for part in ("weight", "bias"):
        shape = getattr(getattr(layer, part, None), "shape", None)
        if shape is not None:
            array = weights.take(f"{name}.{part}", shape)
            layer = eqx.tree_at(operator.attrgetter(part), layer, array)
    return layer


def _table(layer: Layer, part: str, weights: Weights, name: str) -> Layer:
    """A lookup table; in that code it is a linear layer on one-hot vectors."""
    get = operator.attrgetter(part)
    array = weights.take(name, get(layer).shape[::-1]).T
    return eqx.tree_at(get, layer, array)
