"""Members that train together: one program, on one device or several."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PyTree

from ..compile import jit
from ..devices import on_cpu
from ._member import Member


BATCH = "batch"
"""The mesh axis along which devices share a member."""
_MEMBER = "member"
_WHOLE = PartitionSpec()


class Members:
    """Members as one program; they differ only in the values of arrays and numbers.

    An array that is the same object in all of them, such as a data set, is kept once.
    The others get a leading axis, over which functions are mapped: it is split evenly
    over the devices. A GPU computes its members side by side; a CPU's device computes
    them one after the other, which is faster there. The last member is repeated to fill
    up that axis. A single member is not mapped.

    If there are fewer members than devices, several devices can share each member: they
    have the same arrays, and the mapped function divides the work along the mesh axis
    `BATCH`.

    **Arguments:**

    - `members`: What trains together.
    - `sharing`: The number of devices that share each member. Above 1, there must be so
        many for each.

    **Raises:** `ValueError` for members that differ in more than numbers.
    """

    def __init__(self, members: Sequence[Member], sharing: int = 1):
        self.members, self.sharing = list(members), sharing
        self.count = len(self.members)
        trees = [_compiled_part(member) for member in self.members]
        _check_alike(trees)
        _check_alike([eqx.filter(m.model, eqx.is_array) for m in self.members])
        arrays, self._static = eqx.partition(trees[0], eqx.is_array)
        self._structure = jax.tree.structure(arrays)
        columns = [jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in trees]
        # The fewest devices with an even load of members.
        on_each = -(-self.count // len(jax.local_devices()))
        number = -(-self.count // on_each)
        self._mesh = _mesh(number, sharing)
        self._width = number * on_each
        self._own: list[Any] = []
        self._shared: list[Any] = []
        for leaves in zip(*columns, strict=True):
            same = all(leaf is leaves[0] for leaf in leaves)
            shared = self._placed(jnp.asarray(leaves[0]), _WHOLE) if same else None
            self._shared.append(shared)
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
        count = 1 if self._mesh is None else self._mesh.shape[_MEMBER]
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
            def mapped(own, state, shared, *args):
                if self.count == 1:
                    return one(own, state, shared, *args)
                return _each(lambda of: one(*of, shared, *args), (own, state))

            if self._mesh is None:
                return mapped(own, state, shared, *args)
            return jax.shard_map(
                mapped,
                mesh=self._mesh,
                in_specs=(self._split, self._split, _WHOLE, *[_WHOLE] * len(args)),
                out_specs=self._split,
                check_vma=False,  # Devices that share a member return the same.
            )(own, state, shared, *args)

        return jit(every)

    def stack(self, trees: Sequence[PyTree]) -> PyTree:
        """The members' trees of arrays as one; many members give a leading axis."""
        if self.count == 1:
            stacked = jax.tree.map(_strong, trees[0])
        else:
            for k, tree in enumerate(trees):
                _check_structure(k, trees[0], tree)
            trees = [*trees, *[trees[-1]] * (self._width - self.count)]
            stacked = jax.tree.map(_stack, *trees)
        return self._placed(stacked, self._split)

    def unstack(self, tree: PyTree) -> list[PyTree]:
        """The members' trees again, as they were before `stack`."""
        if self.count == 1 and self._mesh is None:
            return [tree]
        # One transfer of everything, not one for each member.
        tree = jax.device_get(tree)
        if self.count == 1:
            return [tree]
        return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(self.count)]

    @property
    def _split(self) -> PartitionSpec:
        """How arrays that `stack` makes are divided: by their leading axis, if any."""
        return _WHOLE if self.count == 1 else PartitionSpec(_MEMBER)

    def _placed(self, tree: PyTree, spec: PartitionSpec) -> PyTree:
        if self._mesh is None:
            return tree
        return jax.device_put(tree, NamedSharding(self._mesh, spec))


def _compiled_part(member: Member) -> Member:
    """The part of a member that is compiled, with arrays instead of numbers.

    The state has the weights, and summaries are made outside.
    """
    return eqx.tree_at(
        lambda m: (m.model, m.optimizer, m.train_seed, m.summaries),
        member,
        (
            eqx.filter(member.model, eqx.is_array, inverse=True),
            jax.tree.map(lambda x: jnp.asarray(x, float), member.optimizer),
            jnp.asarray(member.train_seed, jnp.uint32),
            {},
        ),
    )


def _check_alike(trees: Sequence[PyTree]) -> None:
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


def _each(fn: Callable[[PyTree], PyTree], stacked: PyTree) -> PyTree:
    """A function of each member on this device."""
    # On a CPU, batched products of small matrices are slower than single ones: a step
    # of 8 members takes 1.15 times as long side by side (benchmarks/choices.py).
    if on_cpu():
        return jax.lax.map(fn, stacked)
    return jax.vmap(fn)(stacked)


def _stack(*leaves: Any) -> jax.Array:
    _check_shapes(leaves)
    return _strong(jnp.stack(leaves))


def _strong(x: Any) -> jax.Array:
    # A weakly typed number comes back strongly typed from the first call, and the
    # second call would compile again.
    return jnp.asarray(x, x.dtype)


def _mesh(number: int, sharing: int) -> jax.sharding.Mesh | None:
    if number * sharing == 1:
        return None
    return jax.make_mesh(
        (number, sharing),
        (_MEMBER, BATCH),
        axis_types=(jax.sharding.AxisType.Auto,) * 2,
        devices=jax.local_devices()[: number * sharing],
    )


_ONLY_NUMBERS = "than member 0: members may differ only in numbers"


def _check_structure(k: int, first: PyTree, other: PyTree) -> None:
    if jax.tree.structure(first) != jax.tree.structure(other):
        raise ValueError(f"member {k} has another structure {_ONLY_NUMBERS}")
