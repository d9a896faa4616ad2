"""A function of a model and an example, for `opto.run` on batches of examples."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from ._tap import identity, Tap


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
    scored = opto.on_examples(loss, model, example)
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
