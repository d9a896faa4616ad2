"""Arrays by their names in a public code as a model of ours, and back.

A stored array may be several of ours side by side, and it may be transposed.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from ..checks import finite
from ..models.gpt2 import AbstractGPT2
from ..protocols import Interface, ModelConfig


_MASKS = re.compile(r"h\.(\d+)\.attn\.(bias|masked_bias|causal_mask|local_global_mask)")

Model = TypeVar("Model", bound=eqx.Module)

_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Stored:
    """How a stored array fills arrays of our model."""

    paths: tuple[str, ...]
    """Where they are in our model; more than one are joined along their first axis."""
    transposed: bool = False
    """Whether the stored array is `[in, out]`."""
    flat: bool = False
    """Whether the stored array has one axis, ours in order."""
    groups: int = 1
    """Into how many parts each of ours is cut; the parts of all alternate."""


def layer(theirs: str, *ours: str, transposed: bool = False) -> dict[str, Stored]:
    """Weight and bias of one layer or norm of theirs, which is one or more of ours."""
    return {
        f"{theirs}.{part}": Stored(
            tuple(f"{name}.{part}" for name in ours), transposed and part == "weight"
        )
        for part in ("weight", "bias")
    }


TOGETHER = {"c_attn": ("query", "key", "value")}
APART = {"q_proj": ("query",), "k_proj": ("key",), "v_proj": ("value",)}


def body(
    model: AbstractGPT2,
    *,
    transposed: bool,
    projections: Mapping[str, tuple[str, ...]] = TOGETHER,
) -> dict[str, Stored]:
    """The arrays of positions, blocks and last norm, without those of a kind's own.

    **Arguments:**

    - `transposed`: Whether matrices of blocks are `[in, out]`, as in Hugging Face.
    - `projections`: Which layers of ours a layer before attention holds: `TOGETHER` or
        `APART`.
    """
    found = {"wpe.weight": Stored(("positions.table",))}
    matrices = {
        **{f"attn.{name}": paths for name, paths in projections.items()},
        "attn.c_proj": ("output",),
    }
    settings = {"transposed": transposed}
    for i in range(len(model.blocks)):
        theirs, ours = f"h.{i}", f"blocks.{i}"
        found |= layer(f"{theirs}.ln_1", f"{ours}.attn_norm")
        for name, paths in matrices.items():
            whole = (f"{ours}.attn.{path}" for path in paths)
            found |= layer(f"{theirs}.{name}", *whole, **settings)
        found |= layer(f"{theirs}.ln_2", f"{ours}.mlp_norm")
        found |= layer(f"{theirs}.mlp.c_fc", f"{ours}.mlp.expand", **settings)
        found |= layer(f"{theirs}.mlp.c_proj", f"{ours}.mlp.contract", **settings)
    return found | layer("ln_f", "final_norm")


def without_masks(
    arrays: Mapping[str, ArrayLike], model: AbstractGPT2, prefix: str = ""
) -> dict[str, np.ndarray]:
    """The arrays without masks of attention, which some versions also store.

    **Raises:** `ValueError` for a mask that is not the model's. It may be larger: older
    versions of Hugging Face have one for `n_ctx` tokens.
    """
    kept = {}
    for name, values in arrays.items():
        array = np.asarray(values)
        found = _MASKS.fullmatch(name.removeprefix(prefix))
        if found is None or int(found[1]) >= len(model.blocks):
            kept[name] = array
        elif found[2] == "masked_bias":  # What hidden scores are replaced by.
            if not (array < -1e3).all():
                raise ValueError(f"{name} must be -10000 or so, got {array.max()}")
        else:
            mask = model.blocks[int(found[1])].attn.mask
            least = model.positions.table.shape[0]
            seq = array.shape[-1] if array.ndim else 0
            same = seq >= least and array.shape == (1, 1, seq, seq)
            if not same or not np.array_equal(array[0, 0] != 0, mask.seen(seq, 0)):
                wanted = f"{name} must be {mask} of [1, 1, {least}, {least}]"
                raise ValueError(f"{wanted}, got another mask of {[*array.shape]}")
    return kept


def empty(config: ModelConfig, interface: Interface) -> Any:
    """The model of a config with shapes in place of arrays."""
    return eqx.filter_eval_shape(config.build, interface, key=jax.random.key(0))


def with_arrays(
    model: Model,
    arrays: Mapping[str, ArrayLike],
    stored: Mapping[str, Stored],
    *,
    narrow: bool = False,
) -> Model:
    """The model with these arrays in place of its own.

    **Arguments:**

    - `stored`: What each array is; together they are all arrays of the model.
    - `narrow`: Whether floats of 16 bits stay; else they become 32.

    **Raises:** `ValueError` for arrays that are missing, left over, of another shape,
    no floats or not finite.
    """
    _check_names(arrays, stored)
    leaves = dict(leaves_of(model))
    values: dict[str, Array] = {}
    for name, how in stored.items():
        values |= _parts(name, np.asarray(arrays[name]), how, leaves, narrow)
    fill = lambda path, leaf: values[_path(path)] if _is_leaf(leaf) else leaf
    return jax.tree_util.tree_map_with_path(fill, model)


def read(model: eqx.Module, stored: Mapping[str, Stored]) -> dict[str, np.ndarray]:
    """The arrays of a model by their stored names."""
    leaves = {path: np.asarray(leaf) for path, leaf in leaves_of(model)}
    found = {}
    for name, how in stored.items():
        parts = (np.split(leaves[path], how.groups) for path in how.paths)
        joined = np.concatenate([x for part in zip(*parts, strict=True) for x in part])
        found[name] = np.ascontiguousarray(joined.T if how.transposed else joined)
    return found


def _check_names(arrays: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    if missing := [name for name in stored if name not in arrays]:
        raise ValueError(f"parameters lack {_listed(missing)}")
    if left := [name for name in arrays if name not in stored]:
        raise ValueError(f"parameters that the model does not have: {_listed(left)}")


def _listed(names: list[str]) -> str:
    most = 5
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _parts(
    name: str,
    array: np.ndarray,
    how: Stored,
    leaves: Mapping[str, Any],
    narrow: bool,
) -> Iterator[tuple[str, Array]]:
    """The arrays of ours that a stored one fills, by path."""
    # A number is stored as a matrix.
    shapes = [leaves[path].shape or (1, 1) for path in how.paths]
    whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    wanted = whole[::-1] if how.transposed else whole
    if how.flat:
        wanted = (math.prod(whole),)
    if array.shape != wanted:
        got = f"got {[*array.shape]}"
        raise ValueError(f"{name} must have the shape {[*wanted]}, {got}")
    array = _floats(name, array, narrow)
    array = array.T if how.transposed else array.reshape(whole)
    if how.groups > 1:  # From all parts of a group to all groups of a part.
        array = array.reshape(how.groups, len(shapes), -1, *whole[1:])
        array = array.swapaxes(0, 1).reshape(whole)
    ends = np.cumsum([shape[0] for shape in shapes])[:-1]
    for path, part in zip(how.paths, np.split(array, ends), strict=True):
        yield path, jnp.asarray(part).reshape(leaves[path].shape)


def _floats(name: str, array: np.ndarray, narrow: bool) -> np.ndarray:
    if array.dtype.name not in _FLOATS:
        wanted = f"{name} must be of type {' or '.join(_FLOATS)}"
        raise ValueError(f"{wanted}, got {array.dtype.name}")
    finite(name, array)
    if array.dtype.itemsize < 4 and not narrow:
        return array.astype(np.float32)
    return array


def _is_leaf(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def leaves_of(model: eqx.Module) -> Iterator[tuple[str, Any]]:
    """The arrays of a model, or their shapes, by path."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        if _is_leaf(leaf):
            yield _path(path), leaf


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
