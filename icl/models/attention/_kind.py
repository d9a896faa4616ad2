"""What a kind of attention is, and how it names its weights."""

import abc
from typing import Literal, TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from opto import Rows, Tap


if TYPE_CHECKING:  # As Equinox has it done.
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


Seen = Bool[np.ndarray, "seq kv_seq"]


class AbstractAttention(eqx.Module):
    """From the queries, keys and values of one sequence to what each head gathers.

    A kind says what its weights are, which edits, circuits and measures ask:

    - `name`: What it is called in messages, the name of its config.
    - `before`: What there is before its weights are normalised: the `"logits"` of a
        softmax, at the site `scores`; or a `"kernel"`, zero for what is not seen.
    - `rows`: What the rows of `pattern`, the effective weights, are.
    - `bilinear`: Whether scores or kernel are bilinear in queries and keys, so that
        heads have a QK circuit.
    """

    name: AbstractClassVar[str]
    before: AbstractClassVar[Literal["logits", "kernel"]]
    rows: AbstractClassVar[Literal["distribution", "non-negative", "signed"]]
    bilinear: AbstractClassVar[bool]

    @abc.abstractmethod
    def __call__(
        self,
        q: Float[Array, "seq head d_head"],
        k: Float[Array, "kv_seq head d_head"],
        v: Float[Array, "kv_seq head d_head"],
        seen: Bool[np.ndarray, "seq kv_seq"],
        *,
        tap: Tap,
    ) -> Float[Array, "seq head d_head"]:
        """What each head gathers.

        It names its weights by `name_before` and `name_pattern`, and goes on with what
        these return; it need not compute them unless someone asks (`asked`).

        **Arguments:**

        - `seen`: Which keys each query sees, from a `Mask`.
        """

    def asked(self, tap: Tap) -> bool:
        """Whether anybody records or edits the weights."""
        return tap.wants(self._before_site, "pattern")

    def name_before(
        self,
        tap: Tap,
        value: Float[Array, "a b c"],
        head: int = 0,
        *,
        seen: Seen | None = None,
    ) -> Float[Array, "a b c"]:
        """Names the scores or the kernel, whose axis of heads is `head`.

        With `seen`, edits of what no query sees can be refused.
        """
        rows = Rows(self.before, self.name, seen)
        return by_head(tap, self._before_site, value, head, rows)

    def name_pattern(
        self,
        tap: Tap,
        value: Float[Array, "a b c"],
        head: int = 0,
        *,
        seen: Seen | None = None,
    ) -> Float[Array, "a b c"]:
        """Names the effective weights, whose axis of heads is `head`."""
        return by_head(tap, "pattern", value, head, Rows(self.rows, self.name, seen))

    @property
    def _before_site(self) -> str:
        return "scores" if self.before == "logits" else "kernel"


def by_head(
    tap: Tap,
    name: str,
    value: Float[Array, "a b c"],
    head: int = 1,
    rows: Rows | None = None,
    *,
    heads: str = "head",
) -> Float[Array, "a b c"]:
    """Names a value as `[head, …]`, whose axis of heads is another, for less.

    What has `rows` is `[head, seq, kv_seq]`, all else `[head, seq, d_head]`, with heads
    called `heads`.
    """
    if not tap.wants(name):
        return value
    axes = f"{heads} seq {'d_head' if rows is None else 'kv_seq'}"
    seen = jnp.moveaxis(value, head, 0)
    new = tap(name, seen, axes, rows=rows)
    return value if new is seen else jnp.moveaxis(new, 0, head)
