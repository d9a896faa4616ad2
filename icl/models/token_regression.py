"""A stack of blocks on tokens that are given, with the prediction read off the last."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from opto import identity, Tap

from ._layers import per_token
from ._positions import AbstractPositions, sinusoids
from .stack import StackBlock, stacked


class TokenRegression(eqx.Module):
    """Predicts minus the last channels of the last token's stream, for one example."""

    project: eqx.nn.Linear | None
    """Applied to each token before positions are appended."""
    blocks: tuple[StackBlock, ...]
    positions: AbstractPositions
    num_layers: int = eqx.field(static=True)
    position_channels: int = eqx.field(static=True)
    """How many channels of sines and cosines of its position each token gets."""
    num_outputs: int = eqx.field(static=True)
    input_axes: tuple[str] = eqx.field(static=True, default=("token channel",))

    def __call__(
        self, tokens: Float[Array, "token channel"], *, tap: Tap = identity
    ) -> Float[Array, "*output"]:
        """The prediction: a number, or `[output]` if there are several."""
        x = tokens if self.project is None else per_token(self.project, tokens)
        if self.position_channels:
            table = sinusoids(len(x), self.position_channels)
            x = jnp.concatenate([x, table.astype(x.dtype)], 1)
        sizes = self.blocks, self.num_layers
        stream = stacked(*sizes, x, self.positions, num_queries=1, tap=tap)[-1]
        if self.num_outputs == 1:
            return tap("prediction", -stream[-1, -1], "")
        return tap("prediction", -stream[-1, -self.num_outputs :], "output")
