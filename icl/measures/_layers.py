"""Values of heads in one array, for layers with different numbers of heads."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..checks import check_axes


def stacked(layers: Sequence[Float[Array, "_ ..."]]) -> Float[Array, "layer head ..."]:
    """Stacks the heads of all layers; layers with fewer heads are padded with NaN."""
    most = max(len(heads) for heads in layers)

    def padded(heads: Array) -> Array:
        missing = [(0, most - len(heads)), *[(0, 0)] * (heads.ndim - 1)]
        return jnp.pad(heads, missing, constant_values=jnp.nan)

    return jnp.stack([padded(heads) for heads in layers])


def strongest(
    strengths: Float[np.ndarray, "layer head"],
    count: int = 1,
    *,
    layer: int | None = None,
) -> list[tuple[int, int]]:
    """The heads with the largest values, largest first: `[(1, 3), (1, 7)]`.

    Edits take such a list as `heads=`.

    ```python
    strongest(replay["induction_strength"][-1], layer=1)  # at the last checkpoint
    ```

    **Arguments:**

    - `strengths`: One value for each head; NaN where there is no head.
    - `count`: The number of heads.
    - `layer`: Search only this layer.

    **Raises:** `ValueError` if there are fewer than `count` heads.
    """
    values = np.asarray(strengths, np.float64)
    check_axes(strengths=(values, "layer head"))
    if layer is not None:
        if not 0 <= layer < len(values):
            raise ValueError(f"layer must be in [0, {len(values)}), got {layer}")
        values = np.where(np.arange(len(values))[:, None] == layer, values, np.nan)
    there = int(np.sum(~np.isnan(values)))
    if not 1 <= count <= there:
        raise ValueError(f"count must be in [1, {there}], got {count}")
    # Of equal values the first comes first; NaN comes last.
    order = np.argsort(-values, axis=None, kind="stable")[:count]
    return [divmod(int(place), values.shape[1]) for place in order]
