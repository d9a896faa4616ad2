"""The one call that models make: `value = tap("name", value, "axis axis")`."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Literal

from jaxtyping import Array

from .hints import brief


RowsAre = Literal["logits", "kernel", "distribution", "non-negative", "signed"]


@dataclasses.dataclass(frozen=True)
class Rows:
    """What the rows of a value `[…, query, key]` are, as its kind of attention says.

    **Fields:**

    - `are`: Before normalisation, `"logits"` of a softmax or a `"kernel"`, which is
        zero where a query does not see a key. After it, the rows are the effective
        weights: a `"distribution"`, only `"non-negative"`, or `"signed"`.
    - `of`: The name of the kind of attention, for messages.
    """

    are: RowsAre
    of: str


class Tap(abc.ABC):
    """Names the intermediate values of a model as it computes them.

    A model takes `tap: Tap = identity` and writes

    ```python
    q = tap("q", q, "head seq d_head")
    ```

    With no request this returns `q` itself and compiles to nothing. Call `tap` outside
    of `jax.vmap`, `jax.lax.scan` and the like within the model: a value named inside of
    one cannot leave it (`opto.sites` then raises).
    """

    @abc.abstractmethod
    def __call__(
        self, name: str, value: Array, axes: str, *, rows: Rows | None = None
    ) -> Array:
        """Returns `value`, recorded or edited if someone asked for it.

        **Arguments:**

        - `name`: The site's name within the current scope, without dots.
        - `value`: The intermediate value, of any shape.
        - `axes`: The names of its axes, separated by spaces.
        - `rows`: What the rows of attention are. Without it, scores count as those of a
            softmax and patterns as distributions.
        """

    @abc.abstractmethod
    def scope(self, name: str) -> "Tap":
        """A tap that puts `name` and a dot before its names."""

    @abc.abstractmethod
    def wants(self, *names: str) -> bool:
        """Whether a site at or below one of `names` is recorded or edited.

        Use it to compute costly values only when someone asks for them.
        """


class _Identity(Tap):
    def __call__(
        self, name: str, value: Array, axes: str, *, rows: Rows | None = None
    ) -> Array:
        return value

    def scope(self, name: str) -> Tap:
        return self

    def wants(self, *names: str) -> bool:
        return False


identity = _Identity()
"""The tap of a run that records and edits nothing."""


Visit = Callable[[str, Array, tuple[str, ...], Rows | None], Array]


class VisitorTap(Tap):
    """Hands every named value to `visit(name, value, axes, rows)`; see `opto.visit`.

    `edit` only edits a value: `Tapped` calls it within a scan, and `visit` afterwards,
    whose result is not used. Without `edit`, such values are not visited.
    """

    def __init__(
        self,
        visit: Visit,
        wanted: Callable[[str], bool],
        prefix: str = "",
        edit: Visit | None = None,
    ):
        self._visit = visit
        self._wanted = wanted
        self._prefix = prefix
        self._edit = edit

    def __call__(
        self, name: str, value: Array, axes: str, *, rows: Rows | None = None
    ) -> Array:
        name = self._prefix + name
        if not isinstance(axes, str):
            wanted = f"site {name!r}: axes must be names in one string, 'head seq'"
            raise ValueError(f"{wanted}; got {brief(axes)}")
        return self._visit(name, value, tuple(axes.split()), rows)

    def scope(self, name: str) -> Tap:
        prefix = f"{self._prefix}{name}."
        return VisitorTap(self._visit, self._wanted, prefix, self._edit)

    def edit(
        self, name: str, value: Array, axes: tuple[str, ...], rows: Rows | None
    ) -> Array:
        """The edited value of a site that is visited later."""
        if self._edit is None:
            return value
        return self._edit(self._prefix + name, value, axes, rows)

    def see(
        self, name: str, value: Array, axes: tuple[str, ...], rows: Rows | None
    ) -> None:
        """Visits a value that `edit` was asked for."""
        if self._edit is not None:
            self._visit(self._prefix + name, value, axes, rows)

    def wants(self, *names: str) -> bool:
        return any(self._wanted(self._prefix + name) for name in names)
