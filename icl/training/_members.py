"""Several pytrees of one structure in one mapped program."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree

from ..compile import jit


class Members:
    """Trees that differ only in the values of their arrays.

    An array that is the same object in all of them, such as a data set, is kept once.
    The others get a leading axis, over which functions are mapped: it is split evenly
    over the devices and `vmap`ped on each. The last member is repeated to fill up that
    axis. A single member is not mapped, which is faster.
    """

    def __init__(self, trees: Sequence[PyTree]):
        self.count = len(trees)
        check_alike(trees)
        arrays, self._static = eqx.partition(trees[0], eqx.is_array)
        self._structure = jax.tree.structure(arrays)
        columns = [jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in trees]
        self._devices, self._width = _spread(self.count)
        self._own: list[Any] = []
        self._shared: list[Any] = []
        for leaves in zip(*columns, strict=True):
            same = all(leaf is leaves[0] for leaf in leaves)
            self._shared.append(self._replicate(leaves[0]) if same else None)
            self._own.append(None if same else self.stack(leaves))

    def map(self, fn: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Compiles `fn(member, state, *args)` for all members.

        States and results are stacked (see `stack`); the other arguments are the same
        for all members.
        """
        compiled = self._jitted(fn)
        return lambda state, *args: compiled(self._own, state, self._shared, *args)

    def compiled(
        self, fn: Callable[..., PyTree], state: PyTree, *args: Any
    ) -> tuple[Callable[..., PyTree], Any]:
        """Like `map`, but compiled now for these arguments; also returns its memory.

        The memory is JAX's `CompiledMemoryStats`, for one device.
        """
        program = self._jitted(fn).lower(self._own, state, self._shared, *args)
        program = program.compile()
        call = lambda state, *args: program(self._own, state, self._shared, *args)
        return call, program.memory_analysis()

    @property
    def on_each(self) -> int:
        """The number of members on one device."""
        count = 1 if self._devices is None else self._devices.size
        return self._width // count

    @property
    def shared_bytes(self) -> int:
        """Bytes on each device of the arrays that all members share."""
        return sum(leaf.nbytes for leaf in self._shared if leaf is not None)

    def _jitted(self, fn: Callable[..., PyTree]) -> Any:

        def one(own, state, shared, *args):
            leaves = [s if o is None else o for o, s in zip(own, shared, strict=True)]
            arrays = jax.tree.unflatten(self._structure, leaves)
            return fn(eqx.combine(arrays, self._static), state, *args)

        def every(own, state, shared, *args):
            if self.count == 1:
                return one(own, state, shared, *args)
            axes = (0, 0, None, *[None] * len(args))
            mapped = jax.vmap(one, in_axes=axes)
            if self._devices is None:
                return mapped(own, state, shared, *args)
            split, whole = PartitionSpec("member"), PartitionSpec()
            return jax.shard_map(
                mapped,
                mesh=self._devices,
                in_specs=(split, split, whole, *[whole] * len(args)),
                out_specs=split,
                check_vma=False,  # Nothing is communicated between members.
            )(own, state, shared, *args)

        return jit(every)

    def stack(self, trees: Sequence[PyTree]) -> PyTree:
        """The members' trees of arrays as one; many members give a leading axis."""
        if self.count == 1:
            return jax.tree.map(_strong, trees[0])
        for k, tree in enumerate(trees):
            _check_structure(k, trees[0], tree)
        trees = [*trees, *[trees[-1]] * (self._width - self.count)]
        stacked = jax.tree.map(_stack, *trees)
        if self._devices is None:
            return stacked
        split = NamedSharding(self._devices, PartitionSpec("member"))
        return jax.device_put(stacked, split)

    def unstack(self, tree: PyTree) -> list[PyTree]:
        """The members' trees again, as they were before `stack`."""
        if self.count == 1:
            return [tree]
        # One transfer of everything, not one for each member.
        tree = jax.device_get(tree)
        return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(self.count)]

    def _replicate(self, x):
        if self._devices is None:
            return jnp.asarray(x)
        return jax.device_put(x, NamedSharding(self._devices, PartitionSpec()))


def check_alike(trees: Sequence[PyTree]) -> None:
    """Raises `ValueError` for trees that differ in more than numbers."""
    first = eqx.filter(trees[0], eqx.is_array, inverse=True)
    for k, tree in enumerate(trees[1:], 1):
        _check_structure(k, trees[0], tree)
        if not eqx.tree_equal(eqx.filter(tree, eqx.is_array, inverse=True), first):
            raise ValueError(f"member {k} has other settings {_ONLY_NUMBERS}")
        pairs = zip(jax.tree.leaves(trees[0]), jax.tree.leaves(tree), strict=True)
        for ours, theirs in pairs:
            if eqx.is_array(ours):
                _check_shapes((ours, theirs))


def _check_shapes(leaves: Sequence[Any]) -> None:
    if len({leaf.shape for leaf in leaves}) > 1:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves)
        raise ValueError(f"members have arrays of different shapes: {shapes}")


def _stack(*leaves: Any) -> jax.Array:
    _check_shapes(leaves)
    return _strong(jnp.stack(leaves))


def _strong(x: Any) -> jax.Array:
    # A weakly typed number comes back strongly typed from the first call, and the
    # second call would compile again.
    return jnp.asarray(x, x.dtype)


def _spread(count: int) -> tuple[jax.sharding.Mesh | None, int]:
    """The fewest devices with an even load, and how many members they can hold.

    `None` for a single device.
    """
    available = jax.local_devices()
    on_each = -(-count // len(available))
    number = -(-count // on_each)
    if number == 1:
        return None, count
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh(
        (number,), ("member",), axis_types=auto, devices=available[:number]
    )
    return mesh, number * on_each


_ONLY_NUMBERS = "than member 0: members may differ only in numbers"


def _check_structure(k: int, first: PyTree, other: PyTree) -> None:
    if jax.tree.structure(first) != jax.tree.structure(other):
        raise ValueError(f"member {k} has another structure {_ONLY_NUMBERS}")
