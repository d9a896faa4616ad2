"""One prompt: points, values, and which of them count."""

import equinox as eqx
from jaxtyping import Array, Bool, Float

from ...checks import finite


class FunctionExample(eqx.Module):
    """One prompt, or a batch of them with leading axes.

    **Attributes:**

    - `xs`: The points.
    - `ys`: Their values, as the model sees them. A model predicts the value of a point
        from this point and all pairs before it.
    - `counts`: Which predictions are scored: those within the curriculum's length, or,
        if the query is shifted, only that of the query.
    - `mean_square`: The mean square of the function's values, which divides errors.
    """

    xs: Float[Array, "*batch point dim"]
    ys: Float[Array, "*batch point"]
    counts: Bool[Array, "*batch point"]
    mean_square: Float[Array, "*batch"]

    def check_batch(self) -> None:
        """Raises `ValueError` if some numbers are not finite."""
        for name in ("xs", "ys", "mean_square"):
            finite(name, getattr(self, name))
