"""The base of all kinds of attention; how a kind names its weights."""

import abc
from typing import Literal, TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from opto import Tap
from opto.toolkit import Rows


if TYPE_CHECKING:  # The way Equinox wants it.
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractAttention(eqx.Module):
    """Turns the queries, keys and values of one sequence into what each head gathers.

    A kind describes its weights; edits, circuits and measures ask for this:

    - `name`: The name of its config, used in messages.
    - `before`: The values before its weights are normalised: the `"logits"` of a
        softmax, at the site `scores`; or a `"kernel"`, which is zero for unseen keys.
    - `rows`: The kind of rows in `pattern`, the effective weights.
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
        seen: Bool[np.ndarray | Array, "seq kv_seq"],
        *,
        tap: Tap,
    ) -> Float[Array, "seq head d_head"]:
        """What each head gathers.

        It names its weights with `name_before` and `name_pattern`, and goes on with
        what these return. It need not compute the weights unless someone asks for them
        (`asked`).

        **Arguments:**

        - `seen`: Which keys each query sees, from a `Mask`; a JAX array if there is
            padding, whose queries may see none.
        """

    def asked(self, tap: Tap) -> bool:
        """Whether someone records or edits the weights."""
        return tap.wants(self._before_site, "pattern")

    def name_before(
        self,
        tap: Tap,
        value: Float[Array, "a b c"],
        head: int = 0,
    ) -> Float[Array, "a b c"]:
        """Names the scores or the kernel; `head` is their axis of heads."""
        rows = Rows(self.before, self.name)
        return by_head(tap, self._before_site, value, head, rows)

    def name_pattern(
        self,
        tap: Tap,
        value: Float[Array, "a b c"],
        head: int = 0,
    ) -> Float[Array, "a b c"]:
        """Names the effective weights; `head` is their axis of heads."""
        return by_head(tap, "pattern", value, head, Rows(self.rows, self.name))

    @property
    def _before_site(self) -> str:
        return "scores" if self.before == "logits" else "kernel"


def sees_all(seen: Bool[np.ndarray | Array, "seq kv_seq"]) -> bool:
    """Whether every query is known to see every key."""
    return isinstance(seen, np.ndarray) and bool(seen.all())


class AbstractMixingAttention(AbstractAttention):
    """Attention with a step after `z` that mixes what all heads gathered.

    Its result has the site `z_post`. What a head writes then depends on all heads. So
    there is no site `result`, and heads have no OV circuit.
    """

    @abc.abstractmethod
    def mix(
        self, z: Float[Array, "seq head d_head"]
    ) -> Float[Array, "seq head d_head"]:
        """What enters the output projection; it must not mix tokens."""


def by_head(
    tap: Tap,
    name: str,
    value: Float[Array, "a b c"],
    head: int = 1,
    rows: Rows | None = None,
    *,
    heads: str = "head",
) -> Float[Array, "a b c"]:
    """Names a value as `[head, …]` although its axis of heads is `head`, at a low cost.

    A value with `rows` is `[head, seq, kv_seq]`, any other is `[head, seq, d_head]`;
    `heads` is the name of the axis of heads.
    """
    if not tap.wants(name):
        return value
    axes = f"{heads} seq {'d_head' if rows is None else 'kv_seq'}"
    seen = jnp.moveaxis(value, head, 0)
    new = tap(name, seen, axes, rows=rows)
    return value if new is seen else jnp.moveaxis(new, 0, head)
