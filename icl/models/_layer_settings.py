"""Settings of layers: the same in all, or one for each; sizes that fit together."""

import math
from typing import Any, TypeVar

from ..checks import check_divisor, positive
from ._positions import Learned


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


def check_widths(config: Any) -> None:
    """Raises `ValueError` unless blocks of these sizes can be built.

    **Arguments:** `config`: Has `num_layers`, `d_model` and `num_heads`; `mlp_ratio`
    and `num_kv_heads` if it likes.
    """
    positive("num_layers", config.num_layers)
    positive("d_model", config.d_model)
    shared = getattr(config, "num_kv_heads", None)
    pairs = zip(
        per_layer("num_heads", config.num_heads, config.num_layers),
        per_layer("num_kv_heads", shared, config.num_layers),
        strict=True,
    )
    for heads, kv_heads in pairs:
        check_divisor("num_heads", heads, "d_model", config.d_model)
        if kv_heads is not None:
            check_divisor("num_kv_heads", kv_heads, "num_heads", heads)
    ratio = getattr(config, "mlp_ratio", None)
    if ratio is not None and not 1 <= ratio * config.d_model < math.inf:
        wanted = "positive, with at least one hidden unit"
        raise ValueError(f"mlp_ratio must be {wanted}, got {ratio}")


def check_length(positions: Any, tokens: int) -> None:
    """Raises `ValueError` if learned positions end before a task's sequences do."""
    if isinstance(positions, Learned) and tokens > positions.max_length:
        wanted = f"positions.max_length must be at least {tokens} for this task"
        raise ValueError(f"{wanted}, got {positions.max_length}")
