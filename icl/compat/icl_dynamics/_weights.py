"""Checkpoints of icl-dynamics as our models.

Their `.eqx` files are `.npy` arrays one after the other: the leaves of a dictionary
with the iteration, the model, the optimizer's state and the random keys, in that order.
Plain numbers of the modules (dropout rates, head counts) are scalars between the
weights. So the model's weights are the first arrays of floats, in the order of that
code.
"""

import functools
import operator
import os
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
from ._options import Options, read_config, read_options


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
    config = read_config(Path(folder) / "config.json")
    files = checkpoint_files(folder)
    if checkpoint == -1:
        return load_model(config, files[max(files)]), config
    if checkpoint not in files:
        raise ValueError(f"{folder} has no checkpoint {checkpoint}; {_listing(files)}")
    return load_model(config, files[checkpoint]), config


def load_model(
    config: dict[str, Any], checkpoint_path: str | os.PathLike
) -> ExemplarLabelModel:
    """Reads one checkpoint; its config gives the structure.

    Vectors go through a linear layer, as in ours. For one-hot data (`data_type`), which
    our models get as ids, that layer is the table of embeddings.

    **Arguments:**

    - `config`: The contents of the run's `config.json`.
    - `checkpoint_path`: The `.eqx` file.

    **Raises:** `ValueError` for a config that our models cannot have, and for a file
    that cannot be read, is cut short or has another structure; the error has the
    weight's name, its shape and the shape wanted.
    """
    options = read_options(config)
    path = Path(checkpoint_path)
    weights = _Weights(path, _float_arrays(path))
    # The label table follows the exemplars' weight and, for vectors, bias.
    after = 1 if _has_ids(options) else 2
    inputs = weights.columns(0, "exemplar.weight", options.d_model)
    labels = weights.columns(after, "label.weight", options.d_model)
    if options.model_output_classes is not None:
        labels = options.model_output_classes
    size = {"num_exemplars" if _has_ids(options) else "dim": inputs}
    return _filled(_template(model_config(options), labels, **size), weights)


def model_config(options: Options) -> TransformerConfig:
    """The structure of a run's models; raises `ValueError` if ours cannot have it."""
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
    kind = options.pos_embedding_type
    if kind not in kinds:
        known = ", ".join(kinds)
        raise ValueError(f"pos_embedding_type must be one of {known}, got {kind!r}")
    return kinds[kind]()


def _has_ids(options: Options) -> bool:
    if options.data_type not in ("file", "onehot"):
        raise ValueError(
            f"data_type must be 'file' or 'onehot', got {options.data_type!r}"
        )
    return options.data_type == "onehot"


# A run has hundreds of checkpoints of one structure.
@functools.lru_cache(maxsize=8)
def _template(
    config: TransformerConfig, num_labels: int, **size: int
) -> ExemplarLabelModel:
    """A model with shapes instead of arrays."""
    interface = exemplar_label_interface(num_labels, **size)
    build = functools.partial(config.build, interface)
    return eqx.filter_eval_shape(lambda: build(key=jax.random.key(0)))


def _float_arrays(path: Path) -> list[np.ndarray]:
    """The float arrays, without scalars, in a file of concatenated `.npy` arrays."""
    arrays = []
    try:
        with open(path, "rb") as file:
            end = os.fstat(file.fileno()).st_size
            while file.tell() < end:
                arrays.append(np.lib.format.read_array(file, allow_pickle=False))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (EOFError, ValueError) as error:
        reason = f"array {len(arrays)}: {' '.join(str(error).split())}"
        raise ValueError(f"{path} is cut short or not an .eqx file: {reason}") from None
    return [x for x in arrays if x.ndim and np.issubdtype(x.dtype, np.floating)]


class _Weights:
    """The arrays of a file, taken one after the other."""

    def __init__(self, path: Path, arrays: list[np.ndarray]):
        self.path = path
        self.arrays = arrays
        self.taken = 0

    def columns(self, index: int, name: str, rows: int) -> int:
        """The number of columns of the matrix at `index`, which is not taken yet."""
        self._need(index, name)
        shape = self.arrays[index].shape
        if len(shape) != 2 or shape[0] != rows:
            raise self._misfit(name, (rows, "any"), shape)
        return shape[1]

    def take(self, name: str, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """The next array, as float32; `name` is for an error about its shape."""
        self._need(self.taken, name)
        array = self.arrays[self.taken]
        if array.shape != shape:
            raise self._misfit(name, shape, array.shape)
        self.taken += 1
        return jnp.asarray(array, jnp.float32)

    def _need(self, index: int, name: str) -> None:
        if index >= len(self.arrays):
            got = f"it holds {len(self.arrays)} arrays of floats"
            raise ValueError(f"{self.path} ends before {name}: {got}")

    def _misfit(self, name: str, wanted: tuple, found: tuple[int, ...]) -> ValueError:
        shapes = f"{_shape(wanted)}, from the config, got {_shape(found)}"
        return ValueError(f"{self.path}: {name} must have shape {shapes}")


def _shape(sizes: tuple) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _filled(model: ExemplarLabelModel, weights: _Weights) -> ExemplarLabelModel:
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
    embedding: ExemplarLabelEmbedding, weights: _Weights
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


def _block(block: TransformerBlock, weights: _Weights, name: str) -> TransformerBlock:
    attn_norm = _affine(block.attn_norm, weights, f"{name}.norm1")
    attn = _attention(block.attn, weights, f"{name}.attn")
    block = eqx.tree_at(lambda b: (b.attn_norm, b.attn), block, (attn_norm, attn))
    if block.mlp is None or block.mlp_norm is None:
        return block
    mlp_norm = _affine(block.mlp_norm, weights, f"{name}.norm2")
    mlp = _mlp(block.mlp, weights, f"{name}.mlp")
    return eqx.tree_at(lambda b: (b.mlp_norm, b.mlp), block, (mlp_norm, mlp))


def _attention(attn: Attention, weights: _Weights, name: str) -> Attention:
    d_model = attn.output.weight.shape[0]
    qkv = weights.take(f"{name}.qkv.weight", (3 * d_model, d_model))
    output = weights.take(f"{name}.proj.weight", (d_model, d_model))
    return eqx.tree_at(
        lambda a: [x.weight for x in (a.query, a.key, a.value, a.output)],
        attn,
        [*jnp.split(qkv, 3), output],
    )


def _mlp(mlp: MLP, weights: _Weights, name: str) -> MLP:
    expand = _affine(mlp.expand, weights, f"{name}.fc1")
    contract = _affine(mlp.contract, weights, f"{name}.fc2")
    return eqx.tree_at(lambda m: (m.expand, m.contract), mlp, (expand, contract))


def _affine(layer: Layer, weights: _Weights, name: str) -> Layer:
    """A linear layer or norm with its weight and bias; an identity is unchanged."""
    for part in ("weight", "bias"):
        shape = getattr(getattr(layer, part, None), "shape", None)
        if shape is not None:
            array = weights.take(f"{name}.{part}", shape)
            layer = eqx.tree_at(operator.attrgetter(part), layer, array)
    return layer


def _table(layer: Layer, part: str, weights: _Weights, name: str) -> Layer:
    """A lookup table; in that code it is a linear layer on one-hot vectors."""
    get = operator.attrgetter(part)
    array = weights.take(name, get(layer).shape[::-1]).T
    return eqx.tree_at(get, layer, array)
