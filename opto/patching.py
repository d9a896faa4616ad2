"""Activation and path patching.

Which values of a run on one input change the outcome when they are put into a run on
another input? Each function takes the inputs of the run that is changed, the inputs of
the run that gives the values (`source`), and a metric of the outputs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ._checks import is_metric
from ._derived import Derived, put, RunContext
from ._edit import AbstractEdit, At, check_strength, Edit, number
from ._reference import check_arrays, Patch, Values
from ._run import run
from ._site import last_name, scope_of, Sites
from ._sweep import sweep
from ._swept import Each
from ._where import Where
from .hints import brief


Metric = Callable[..., Array]
# What a norm follows.
_BEFORE_NORM = ("in", "q_in", "k_in", "v_in")
# Frozen in path patching: what heads and MLPs write, if the model has these sites.
WRITES = ("**.z", "**.mlp.out")


class PathPatch(Derived):
    """Patches what the receivers get from the senders directly, not by other parts.

    The receivers get the values that they would have if the senders wrote what they
    write on another input, while every head and MLP in between wrote what it writes on
    this one. That is stricter than Wang et al. (2023, "Interpretability in the wild"),
    who let MLPs respond; `frozen="**.z"` does as they do. What a sender feeds within
    its own part is not frozen: `v` of a head reaches others through that head's `z`.
    Norms respond, too. With `"**.scale"` in `frozen` they divide by what they divide by
    on this input, as in TransformerLens's `freeze_ln`; then the path is linear. This
    goes for the norm after a receiver such as `mlp.in`, too, for all that it divides.

    ```python
    _, source = opto.run(model, *source_inputs, record="blocks.0.attn.z")
    PathPatch(At("blocks.0.attn.z", head=2), At("blocks.1.attn.k", head=3), source)
    ```
    """

    senders: At | Each
    receivers: At | Each
    source: Values
    frozen: tuple[str, ...] = eqx.field(static=True)
    strength: Float[Array, "..."]

    def __init__(
        self,
        senders: At | Each,
        receivers: At | Each,
        source: Mapping[str, ArrayLike | Sequence[Any]],
        *,
        frozen: Iterable[str] = WRITES,
        strength: ArrayLike = 1.0,
    ):
        """**Arguments:**

        - `senders`: Entries that take the values of another input.
        - `receivers`: Entries that see the senders: what a part of the model reads, or
            computes from what it reads, such as `q`, `k` and `v` of a head, `mlp.in`,
            or `logits`.
        - `source`: A record of the senders' sites on the other input; as in `Patch`.
        - `frozen`: Sites that are frozen in between. Patterns that match no site are
            ignored, but at least one has to match.
        - `strength`: As for `opto.Clamp`, applied to the receivers.
        """
        for name, part in (("senders", senders), ("receivers", receivers)):
            if not isinstance(part, At | Each):
                raise ValueError(f"{name} is an opto.At(...), got {brief(part)}")
        self.senders, self.receivers = senders, receivers
        sender = senders.edit if isinstance(senders, Each) else senders
        self.source = Patch(sender.site, source).values
        if not isinstance(frozen, Iterable):
            raise ValueError(f"frozen is names of sites, got {brief(frozen)}")
        self.frozen = (frozen,) if isinstance(frozen, str) else tuple(frozen)
        self.strength = number("strength", strength)

    def needs(self, table: Sites) -> tuple[str, ...]:
        return self._frozen(table)

    def derive(self, context: RunContext) -> tuple[Edit, ...]:
        senders, receivers = map(_whole, (self.senders, self.receivers))
        frozen = self._between(context.table)
        held = context.base
        if context.before:
            held = context.run(edits=context.before, record=frozen)
        edits: list[AbstractEdit] = list(context.before)
        edits += [put(name, {name: held[name]}, Where({}), 1.0) for name in frozen]
        edits.append(put(senders.site, self.source.arrays, senders.where, 1.0))
        seen = context.run(edits=edits, record=[receivers.site])
        read = [
            scope_of(name)
            for name in _selected(receivers, context.table)
            if last_name(name) in _BEFORE_NORM
        ]
        return (
            *(
                put(name, {name: held[name]}, Where({}), 1.0)
                for name in frozen
                if last_name(name) == "scale" and scope_of(name) in read
            ),
            put(receivers.site, dict(seen), receivers.where, self.strength),
        )

    def changes(self, table: Sites) -> tuple[str, ...]:
        return _selected(_whole(self.receivers), table)

    def check(self, table: Sites) -> None:
        check_strength(self.strength)
        self.senders.check(table)
        self.receivers.check(table)
        senders, receivers = map(_whole, (self.senders, self.receivers))
        check_arrays("PathPatch", self.source.arrays, table.match(senders.site))
        frozen = self._between(table)
        order = {name: i for i, name in enumerate(table)}
        sent, read = _selected(senders, table), _selected(receivers, table)
        if held := [name for name in read if name in frozen]:
            raise ValueError(
                f"receivers at {held[0]!r} are themselves frozen (frozen=): name what "
                "they read, such as 'q', 'k', 'v' or 'mlp.in'"
            )
        for name in read:
            # A norm's scale is only a part of what a receiver reads.
            before = [
                f
                for f in frozen
                if scope_of(f) == scope_of(name) and last_name(f) != "scale"
            ]
            if any(order[f] < order[name] for f in before):
                raise ValueError(
                    f"receivers at {name!r} are made of {before[0]!r}, which is frozen "
                    "(frozen=): name what comes before it"
                )
        if min(order[s] for s in sent) >= max(order[r] for r in read):
            raise ValueError(
                f"there is no path from {senders!r} to {receivers!r}: no receiver "
                "comes after a sender"
            )

    def arguments(self) -> dict[str, Any]:
        frozen = {} if self.frozen == WRITES else {"frozen": self.frozen}
        ends = {"senders": self.senders, "receivers": self.receivers}
        return {**ends, "source": self.source.arrays, **frozen}

    def _between(self, table: Sites) -> tuple[str, ...]:
        """The frozen sites, without those that senders feed within their own part."""
        order = {name: i for i, name in enumerate(table)}
        sent = [s.name for s in table.match(_whole(self.senders).site)]
        own = [
            name
            for name in self._frozen(table)
            for s in sent
            if scope_of(s) == scope_of(name) and order[s] < order[name]
        ]
        return tuple(name for name in self._frozen(table) if name not in own)

    def _frozen(self, table: Sites) -> tuple[str, ...]:
        names = [s.name for s in table.values() if s.matches(*self.frozen)]
        if not names:
            raise ValueError(f"frozen={list(self.frozen)} matches no site")
        return tuple(names)


def _whole(part: At | Each) -> At:
    """The selection; of a swept one, all that it sweeps over."""
    return part.edit if isinstance(part, Each) else part


def _selected(part: At, table: Sites) -> tuple[str, ...]:
    sites = part.where.within(table.match(part.site))
    return tuple(site.name for site in sites)


def activation_patch(
    metric: Metric,
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    *,
    at: Each,
    edits: Sequence[AbstractEdit] = (),
    chunk: int | None = None,
) -> Array:
    """A metric with each of many parts of a run patched from a run on other inputs.

    ```python
    at = opto.At("blocks.*.resid_pre").each("layer", "pos")
    activation_patch(metric, model, inputs, source, at=at)  # [layer, pos]
    ```

    **Arguments:**

    - `metric`: `metric(outputs, *inputs)`, of the run that is changed.
    - `model`: As for `opto.run`, with `inputs` and `source` of one shape.
    - `at`: What is patched: a selection and the axes to sweep, `At(...).each(...)`.
    - `edits`: In force in both runs.
    - `chunk`: As for `opto.sweep`.

    **Returns:**

    The metric at each point of the grid.
    """
    is_metric(metric)
    if not isinstance(at, Each) or not isinstance(at.edit, At):
        raise ValueError(f"at is opto.At(...).each(...), got {brief(at)}")
    check_alike(inputs, source)
    _, record = run(model, *source, record=at.edit.site, edits=edits)
    patch = eqx.tree_at(
        lambda e: e.where, Patch(at.edit.site, record), at.edit.where
    ).each(*at.axes)
    return sweep(metric, model, *inputs, edits=[*edits, patch], chunk=chunk)


def path_patch(
    metric: Metric,
    model: Callable[..., Any],
    inputs: Sequence[Any],
    source: Sequence[Any],
    *,
    senders: At | Each,
    receivers: At | Each,
    frozen: Iterable[str] = WRITES,
    edits: Sequence[AbstractEdit] = (),
    chunk: int | None = None,
) -> Array:
    """A metric with each sender patched for each receiver, along the direct path.

    ```python
    senders = opto.At("blocks.0.attn.z").each("head")
    receivers = opto.At("blocks.1.attn.k").each("head")
    path_patch(metric, model, inputs, source, senders=senders, receivers=receivers)
    ```

    **Arguments:** as `activation_patch`, and `senders`, `receivers`, `frozen` as for
    `opto.patching.PathPatch`.

    **Returns:**

    The metric, with the axes of the senders and then those of the receivers in front.
    """
    is_metric(metric)
    check_alike(inputs, source)
    sender = senders.edit if isinstance(senders, Each) else senders
    _, record = run(model, *source, record=sender.site, edits=edits)
    patch = PathPatch(senders, receivers, record, frozen=frozen)
    if isinstance(senders, Each) or isinstance(receivers, Each):
        return sweep(metric, model, *inputs, edits=[*edits, patch], chunk=chunk)
    out, _ = run(model, *inputs, edits=[*edits, patch])
    return metric(out, *inputs)


def check_alike(inputs: Sequence[Any], source: Sequence[Any]) -> None:
    """Raises `ValueError` unless the inputs of two runs have the same shapes."""
    ours, theirs = ([np.shape(x) for x in both] for both in (inputs, source))
    if ours != theirs:
        got = f"source has shapes {theirs}, but the inputs have {ours}"
        raise ValueError(f"{got}; wanted the same")
