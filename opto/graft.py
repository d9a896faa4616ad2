"""Layers taken from another model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx

from ._checks import whole
from ._derived import Derived, put, RunContext
from ._discover import find_sites
from ._edit import AbstractEdit, Edit, several
from ._examples import one_example, OnExamples
from ._literal import Written
from ._site import Sites
from ._where import Where
from .hints import brief


class Graft(Derived):
    """Takes the first layers from another model, or the last ones.

    ```python
    Graft(other, until=0)  # layer 0 and all before it come from the other model
    Graft(other, from_=1)  # layer 1 and all after it come from the other model
    ```

    Both models run on the same inputs, each under its own edits. The edits given here
    are for the other model. With `from_`, edits before the graft in the list are for
    this model, and edits after it are for the other one.

    With `until`, this model's own first layers are still computed and recorded, but
    nothing reads them. With `from_`, everything recorded is from the other model.
    """

    model: Any
    source: str | None = eqx.field(static=True)
    checkpoint: int = eqx.field(static=True)
    until: int | None = eqx.field(static=True)
    from_: int | None = eqx.field(static=True)
    edits: tuple[AbstractEdit, ...]

    def __init__(
        self,
        model: Callable[..., Any] | str,
        *,
        until: int | None = None,
        from_: int | None = None,
        checkpoint: int = -1,
        edits: Iterable[AbstractEdit] = (),
    ):
        """**Arguments:**

        - `model`: A model that takes the same inputs; or, in the text form, the path of
            a run, from which `icl` loads it (`loaded`).
        - `until`: The last layer taken from the other model (-1 takes only the
            embedding), or
        - `from_`: the first layer taken from it.
        - `checkpoint`: With a path, the checkpoint by its sequences seen; -1 is the
            last one.
        - `edits`: Edits of the other model.

        **Raises:** `ValueError` unless exactly one of `until` and `from_` is given, and
        if `model` is neither a model nor a path.
        """
        if (until is None) == (from_ is None):
            raise ValueError("Graft takes either until= or from_=, a layer")
        is_path = isinstance(model, str)
        if not (is_path or callable(model)):
            raise ValueError(
                f"model is a model or the path of a run, got {brief(model)}"
            )
        self.model = None if is_path else model
        self.source = model if is_path else None
        self.checkpoint = whole("checkpoint", checkpoint, -1)
        layer = "the number of a layer"
        self.until = None if until is None else whole("until", until, -1, layer)
        self.from_ = None if from_ is None else whole("from_", from_, 0, layer)
        self.edits = several(edits)

    def loaded(self, model: Callable[..., Any]) -> "Graft":
        """This graft with the model that its path stands for."""
        is_none = lambda x: x is None
        return eqx.tree_at(lambda e: e.model, self, model, is_leaf=is_none)

    @property
    def name(self) -> str:
        """The graft without its edits, for messages."""
        layers = f"until={self.until}" if self.from_ is None else f"from_={self.from_}"
        return f"Graft({self.arguments()['model']!r}, {layers})"

    def needs(self, table: Sites) -> tuple[str, ...]:
        return ()

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        seam = self.seam(context.table)
        record = context.run(model=self.model, edits=self.edits, record=[seam])
        return (put(seam, {seam: record[seam]}, Where({}), 1.0),)

    def check(self, table: Sites) -> None:
        if self.model is None:
            raise ValueError(f"{self!r} names a run: load its model first (loaded())")
        self.seam(table)

    def changes(self, table: Sites) -> tuple[str, ...]:
        return (self.seam(table),)

    def replaces_until(self, table: Sites) -> str | None:
        return None if self.until is None else self.seam(table)

    def seam(self, table: Sites) -> str:
        """The last site that the model of the first layers computes."""
        last = (self.from_ or 0) - 1 if self.until is None else self.until
        layers = [site.layer for site in table.values()]
        known = sorted({layer for layer in layers if layer is not None})
        if not known or last not in (-1, *known):
            given = f"from_={self.from_}" if self.until is None else f"until={last}"
            raise ValueError(f"{given} is out of range: the model has layers {known}")
        names = list(table)
        if last >= 0:
            return names[len(layers) - 1 - layers[::-1].index(last)]
        first = layers.index(known[0])
        if first == 0:
            raise ValueError("there is no site before the first layer to graft at")
        return names[first - 1]

    def arguments(self) -> dict[str, Any]:
        path = repr(self.source) if self.source else f"<{type(self.model).__name__}>"
        checkpoint = {} if self.checkpoint == -1 else {"checkpoint": self.checkpoint}
        until = {} if self.until is None else {"until": self.until}
        from_ = {} if self.from_ is None else {"from_": self.from_}
        edits = {"edits": self.edits} if self.edits else {}
        return {"model": _Verbatim(path), **until, **from_, **checkpoint, **edits}


class _Verbatim(Written):
    def __init__(self, text: str):
        self._text = text

    def text(self, most: int | None = None) -> str:
        return self._text


def swapped(
    fn: Any, args: tuple[Any, ...], edits: Sequence[Any]
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The same run, written as a run of the model that gives the outputs.

    A graft of the other model's last layers into this one becomes a graft of this
    model's first layers into the other.
    """
    edits = tuple(edits)
    for i in reversed(range(len(edits))):
        graft = edits[i]
        if isinstance(graft, Graft) and graft.from_ is not None and graft.model:
            own, _ = host(fn, args)
            lower = Graft(own, until=graft.from_ - 1, edits=edits[:i])
            fn, args = of_model(fn, args, graft.model)
            return fn, args, (lower, *graft.edits, *edits[i + 1 :])
    return fn, args, edits


def of_model(fn: Any, args: tuple[Any, ...], model: Any) -> tuple[Any, tuple[Any, ...]]:
    """The same call, of a grafted model; raises `ValueError` if it cannot be made."""
    other, theirs = host(fn, args)[1](model)
    try:
        find_sites(other, *one_example(other, theirs)[0])
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        kind, reason = type(model).__name__, " ".join(str(error).split())
        wanted = f"the model of a graft must take the same inputs, and {kind} does not"
        raise ValueError(f"{wanted}: {reason}") from error
    return other, theirs


def host(
    fn: Any, args: tuple[Any, ...]
) -> tuple[Any, Callable[[Any], tuple[Any, tuple[Any, ...]]]]:
    """The model of a call, and a function that gives the same call of another model.

    The model is that of `on_examples`; else the first argument if it is a module (as
    for a loss); else the module whose method `fn` is; else `fn` itself.
    """
    if isinstance(fn, OnExamples):
        return fn.model, lambda model: (fn.with_model(model), args)
    if args and isinstance(args[0], eqx.Module):
        return args[0], lambda model: (fn, (model, *args[1:]))
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, eqx.Module):
        return owner, lambda model: (getattr(model, fn.__name__), args)
    return fn, lambda model: (model, args)


class GraftedCall(NamedTuple):
    """The call of a grafted model, with that model's edits and sites."""

    fn: Any
    args: tuple[Any, ...]
    edits: tuple[Any, ...]
    table: Sites


def grafted_calls(
    fn: Any, args: tuple[Any, ...], edits: Sequence[Any]
) -> Iterator[GraftedCall]:
    """The calls of those grafts in a list of edits that have edits of their own."""
    for graft in edits:
        if isinstance(graft, Graft) and graft.model is not None and graft.edits:
            other, theirs = of_model(fn, args, graft.model)
            there = find_sites(other, *one_example(other, theirs)[0])
            yield GraftedCall(other, theirs, graft.edits, there)
