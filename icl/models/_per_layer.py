"""Settings that are the same in all layers, or one for each layer."""

from typing import TypeVar

from ..checks import positive


Setting = TypeVar("Setting")


def per_layer(
    name: str, value: Setting | tuple[Setting, ...], num_layers: int
) -> tuple[Setting, ...]:
    """The setting of each layer.

    **Raises:** `ValueError` for another number of settings than layers.
    """
    if not isinstance(value, tuple | list):
        return (value,) * num_layers
    if len(value) != num_layers:
        wanted = "one for all layers, or one for each"
        got = f"{len(value)} for num_layers={num_layers}"
        raise ValueError(f"{name} must be {wanted}; got {got}")
    return tuple(value)


def check_kv_heads(num_heads: int, num_kv_heads: int | None) -> None:
    """Raises `ValueError` unless each key and value head is of equally many heads."""
    if num_kv_heads is None:
        return
    positive("num_kv_heads", num_kv_heads)
    if num_heads % num_kv_heads:
        wanted = f"num_kv_heads must be None or divide num_heads={num_heads}"
        raise ValueError(f"{wanted}, got {num_kv_heads}")
