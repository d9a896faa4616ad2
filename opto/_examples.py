"""One example and batches of examples: which axes of the inputs are which."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ._tap import identity, Tap
from .hints import brief


def one_example(
    model: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], int]:
    """Strips the batch axes from `inputs`; also returns how many were stripped.

    The inputs of a model that sets `input_axes` (one string of axis names for each
    input) may have more leading axes than it names: the batch axes. Without
    `input_axes` the inputs are one example.

    **Raises:** `ValueError` naming the input whose rank or batch size does not fit.
    """
    for i, x in enumerate(inputs):
        for leaf in jax.tree.leaves(x):
            if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OUSMm":
                raise ValueError(f"input {i} must hold numbers, got {brief(leaf)}")
    declared = getattr(model, "input_axes", None)
    if declared is None:
        return inputs, 0
    if isinstance(declared, str) or not all(isinstance(x, str) for x in declared):
        wanted = "input_axes must be a tuple with a string for each input, ('seq',)"
        raise ValueError(f"{wanted}; got {brief(declared)}")
    if len(inputs) != len(declared):
        wanted = ", ".join(repr(axes) for axes in declared)
        raise ValueError(
            f"expected {len(declared)} inputs ({wanted}), got {len(inputs)}"
        )
    for i, x in enumerate(inputs):
        if isinstance(x, list | tuple):
            got = type(x).__name__
            raise ValueError(f"input {i} must be an array (jnp.asarray), got a {got}")
    batches = [
        _batch_shape(i, np.shape(x), axes)
        for i, (x, axes) in enumerate(zip(inputs, declared, strict=True))
    ]
    shapes = [np.shape(x)[len(b) :] for x, b in zip(inputs, batches, strict=True)]
    _check_sizes(shapes, declared)
    if len(set(batches)) > 1:
        got = ", ".join(
            f"{axes!r}: {b}" for axes, b in zip(declared, batches, strict=True)
        )
        raise ValueError(f"the inputs' batch axes differ ({got})")
    lead = len(batches[0])
    if lead == 0:
        return inputs, 0
    example = tuple(
        jax.ShapeDtypeStruct(shape, _dtype(x))
        for x, shape in zip(inputs, shapes, strict=True)
    )
    return example, lead


def _dtype(x: Any) -> Any:
    return x.dtype if isinstance(x, jax.Array) else jnp.result_type(x)


def _check_sizes(shapes: Sequence[tuple[int, ...]], declared: Sequence[str]) -> None:
    """Raises `ValueError` if inputs share an axis name but differ in its length."""
    sizes: dict[str, int] = {}
    for i, (shape, axes) in enumerate(zip(shapes, declared, strict=True)):
        for axis, size in zip(axes.split(), shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                raise ValueError(
                    f"input {i} has length {size} on the axis {axis!r}, the inputs "
                    f"before it have {sizes[axis]}"
                )


def _batch_shape(i: int, shape: tuple[int, ...], axes: str) -> tuple[int, ...]:
    lead = len(shape) - len(axes.split())
    if lead < 0:
        raise ValueError(f"input {i} has axes {axes!r}, got an array of shape {shape}")
    return shape[:lead]


def batch_shape(inputs: tuple[Any, ...], lead: int) -> tuple[int, ...]:
    """The lengths of the `lead` batch axes of a model's inputs."""
    return np.shape(inputs[0])[:lead] if lead else ()


class OnExamples(eqx.Module):
    """A function of a model and an example, as `on_examples` makes it.

    **Attributes:**

    - `model`: The model that has the sites; a graft replaces it.
    - `input_axes`: The axes of each array of an example.
    """

    fn: Callable[..., PyTree]
    model: Any
    input_axes: tuple[str, ...] = eqx.field(static=True)
    _structure: Any = eqx.field(static=True)

    def __call__(self, *leaves: Any, tap: Tap = identity) -> PyTree:
        """Calls `fn` on the example with these arrays."""
        return self.fn(self.model, jax.tree.unflatten(self._structure, leaves), tap=tap)

    def with_model(self, model: Any) -> "OnExamples":
        """The same function with another model."""
        return OnExamples(self.fn, model, self.input_axes, self._structure)


def on_examples(fn: Callable[..., PyTree], model: Any, example: PyTree) -> OnExamples:
    """Lets `opto.run` take `fn(model, example, tap=)`, such as a loss, and batches.

    ```python
    scored = opto.toolkit.on_examples(loss, model, example)
    losses, record = opto.run(scored, *jax.tree.leaves(batch), record="**.z")
    ```

    **Arguments:**

    - `fn`: A function of a model and one example.
    - `model`: The model.
    - `example`: One example: a tree of arrays, or of their shapes.
    """
    leaves, structure = jax.tree.flatten(example)
    axes = (
        " ".join(f"{k}_{axis}" for axis in range(np.ndim(leaf)))
        for k, leaf in enumerate(leaves)
    )
    return OnExamples(fn, model, tuple(axes), structure)
