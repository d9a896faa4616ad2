"""A tree taken apart once: for what is remembered of it, and for its program."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import equinox as eqx
import jax


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    """A tree without its arrays. It can be hashed if all other leaves can."""

    structure: Any
    leaves: tuple[Any, ...]

    def with_arrays(self, arrays: Sequence[Any]) -> Any:
        """The tree again."""
        given = iter(arrays)
        leaves = [next(given) if leaf is None else leaf[0] for leaf in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


class Flat:
    """The leaves and the structure of a tree; Equinox's modules are slow to flatten."""

    def __init__(self, tree: Any):
        self.leaves, self.structure = jax.tree.flatten(tree)
        self._arrays = [eqx.is_array(leaf) for leaf in self.leaves]

    def key(self) -> Hashable | None:
        """All that a compiled program depends on: the tree without arrays' numbers.

        `None` if another leaf cannot be hashed.
        """
        # 1, 1.0 and True are equal, but not the same program.
        parts = [
            (x.shape, x.dtype, getattr(x, "weak_type", False))
            if known or isinstance(x, jax.ShapeDtypeStruct)
            else (x, type(x))
            for x, known in zip(self.leaves, self._arrays, strict=True)
        ]
        key = (self.structure, *parts)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def partition(self) -> tuple[list[Any], Static]:
        """The arrays, and the rest."""
        each = [*zip(self.leaves, self._arrays, strict=True)]
        rest = tuple(None if known else (x, type(x)) for x, known in each)
        return [x for x, known in each if known], Static(self.structure, rest)
