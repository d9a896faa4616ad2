"""A checkpoint file of icl-dynamics: its arrays, and what it says about the model.

An `.eqx` file is `.npy` arrays one after the other: the leaves of a dictionary with the
iteration, the model, the optimizer's state and the random keys, in that order. So the
model's weights are the first arrays of floats, in the order of that code. Numbers of
the modules are scalars between them; those of attention come before its `qkv.weight`.
"""

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._options import Options, read_options


# The scalars of attention in their order, and the kinds of their types.
_ATTENTION = {
    "num_heads": "i",
    "causal": "b",
    "use_rope": "b",
    "sin_time": "f",
    "scale": "f",
}


class Weights:
    """The float arrays of a file, taken one after the other.

    **Raises:** `ValueError` for a file that cannot be read or is cut short.
    """

    def __init__(self, path: Path):
        self.path = path
        self.taken = 0
        self._arrays: list[np.ndarray] = []
        # The scalars before each array.
        self._scalars: list[list[np.ndarray]] = [[]]
        for leaf in _leaves(path):
            if not leaf.ndim:
                self._scalars[-1].append(leaf)
            elif jnp.issubdtype(leaf.dtype, jnp.floating):
                self._arrays.append(leaf)
                self._scalars.append([])

    def take(self, name: str, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """The next array, as float32; `name` is for an error about its shape."""
        if self.taken >= len(self._arrays):
            got = f"it holds {len(self._arrays)} arrays of floats"
            raise ValueError(f"{self.path} ends before {name}: {got}")
        array = self._arrays[self.taken]
        if array.shape != shape:
            shapes = f"{list(shape)}, got {list(array.shape)}"
            raise ValueError(f"{self.path}: {name} must have shape {shapes}")
        self.taken += 1
        return jnp.asarray(array, jnp.float32)

    def num_inputs(self) -> int:
        """The length of a class's vector, or the number of one-hot classes."""
        return self._arrays[0].shape[1]

    def options(self, config: Mapping[str, Any]) -> Options:
        """The options of the run, with those of the model as this file says them.

        A run that continues another one has that run's model, whatever its own config
        says (`load_from_ckpt_cfg`).

        **Raises:** `ValueError`, naming the field, if the file contradicts itself; also
        if it contradicts the config, and the run does not continue another one.
        """
        options, said = read_options(config), self._said()
        units, ratio = said.pop("units"), options.mlp_ratio
        if units != (None if ratio is None else int(said["d_model"] * ratio)):
            said["mlp_ratio"] = units and units / said["d_model"]
        if not options.load_from_ckpt_cfg:
            for name, value in said.items():
                if config.get(name) not in (None, value):
                    both = f"is {config[name]!r} in the config, but {value!r} in"
                    raise ValueError(f"{name} {both} {self.path}")
        return dataclasses.replace(options, **said)

    def _said(self) -> dict[str, Any]:
        """The options of the model by their names, and the MLPs' hidden `units`."""
        blocks = [i for i in range(len(self._arrays)) if self._is_attention(i)]
        first = min(blocks, default=0)
        has_norm = first > 0 and self._arrays[first - 1].ndim == 1
        inputs = [x.shape for x in self._arrays[: first - 2 * has_norm]]
        # The weight (and, for vectors, bias) of exemplars, labels, and maybe positions.
        has_ids = len(inputs) > 1 and len(inputs[1]) == 2
        tables = [shape for shape in inputs if len(shape) == 2]
        learned = len(tables) == 3
        if len(tables) not in (2, 3) or len(inputs) != len(tables) + (not has_ids):
            wanted = "embeddings, then attention with " + ", ".join(_ATTENTION)
            raise ValueError(f"{self.path} must hold {wanted} before its qkv.weight")
        of = self._of_attention(blocks)
        d_model, num_labels = tables[1]
        if of["use_rope"] and learned:
            raise ValueError(f"{self.path}: use_rope is True, but it has a pos_embed")
        kind = "ape" if learned else "sinusoidal"
        self._check("embed_dim", self._scalars[0][-2:-1], d_model)
        self._check("num_classes", self._scalars[0][-1:], num_labels)
        scale = max(d_model // max(of["num_heads"], 1), 1) ** -0.5
        self._check(f"scale of {of['num_heads']} heads", [of["scale"]], scale)
        return {
            "depth": len(blocks),
            "d_model": d_model,
            "num_heads": of["num_heads"],
            "units": self._hidden_units(first + 2 + 2 * has_norm),
            "no_norm": not has_norm,
            "not_causal": not of["causal"],
            "pos_embedding_type": "rope" if of["use_rope"] else kind,
            "sin_time": of["sin_time"],
            "model_output_classes": num_labels,
            "data_type": "onehot" if has_ids else "file",
        }

    def _is_attention(self, index: int) -> bool:
        kinds = "".join(x.dtype.kind for x in self._scalars[index][-5:])
        is_matrix = self._arrays[index].ndim == 2
        return is_matrix and kinds == "".join(_ATTENTION.values())

    def _of_attention(self, blocks: list[int]) -> dict[str, Any]:
        """The numbers of attention by name, which are those of every block."""
        found = {}
        for place, name in enumerate(_ATTENTION):
            values = [self._scalars[i][-5:][place].item() for i in blocks]
            if len({*values}) > 1:
                got = f"got {values}"
                raise ValueError(
                    f"{self.path}: {name} must be one in all blocks, {got}"
                )
            found[name] = values[0]
        return found

    def _hidden_units(self, index: int) -> int | None:
        """Those of the first block's MLP; `index` is the matrix after its attention.

        A dropout has two scalars. An odd number of scalars belongs to the next block's
        attention, which has five, or to the unembedding, which has one.
        """
        if index >= len(self._arrays) or len(self._scalars[index]) % 2:
            return None
        return self._arrays[index].shape[0]

    def _check(self, name: str, found: list[Any], wanted: int | float) -> None:
        got = ", ".join(map(str, found)) or "nothing"
        if len(found) != 1 or not math.isclose(found[0], wanted, rel_tol=1e-6):
            raise ValueError(f"{self.path}: {name} must be {wanted:g}, got {got}")


def _leaves(path: Path) -> list[np.ndarray]:
    """The leaves of a file; `bfloat16`, which NumPy writes as bytes, is read back."""
    leaves = []
    try:
        with open(path, "rb") as file:
            end = os.fstat(file.fileno()).st_size
            while file.tell() < end:
                leaf = np.lib.format.read_array(file, allow_pickle=False)
                leaves.append(leaf.view(jnp.bfloat16) if leaf.dtype == "V2" else leaf)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (EOFError, ValueError) as error:
        reason = f"array {len(leaves)}: {' '.join(str(error).split())}"
        raise ValueError(f"{path} is cut short or not an .eqx file: {reason}") from None
    return leaves
