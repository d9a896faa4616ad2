"""What models of points and their values share: inputs, and the form of answers."""

from typing import Any

from jaxtyping import Array, Float

from ..protocols import Interface


def dim_of(config: Any, interface: Interface) -> int:
    """The number of components of a point.

    **Raises:** `ValueError` unless the inputs are points and a value for each.
    """
    ranks = [len(x.shape) for x in interface.inputs]
    real = all(x.count is None for x in interface.inputs)
    if ranks == [2, 1] and real and interface.num_outputs == 1:
        return interface.inputs[0].shape[-1]
    wanted = "points [point, dim], a value for each, and one output"
    name = type(config).__name__
    raise ValueError(f"{name} needs {wanted}; this task has {interface}")


def answers(found: Float[Array, " seq"], num_queries: int) -> Float[Array, "*query"]:
    """The last of the numbers, or the last `[query]` ones for several queries."""
    return found[-1] if num_queries == 1 else found[-num_queries:]


def answer_axes(model: Any) -> str:
    """The axes of a model's prediction."""
    queries = "query" if model.num_queries > 1 else ""
    return f"{model.supervision.axes}{queries}".strip()
