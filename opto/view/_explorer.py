"""A model whose heads are switched off and on, compiled once."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check_edits import as_edits
from .._checks import one_number
from .._discover import sites
from .._edit import AbstractEdit, blend, Edit
from .._maps import MOST_EXAMPLES
from .._run import run
from .._site import layer_of, Site
from .._where import known, Where
from ..hints import brief
from ..lens import logit_lens
from ._show import show, show_lens


KINDS = ("zero", "mean")


@dataclasses.dataclass(frozen=True)
class Choice:
    """What a reader has chosen.

    **Fields:**

    - `heads`: Pairs of layer and head that are ablated.
    - `kind`: To what: `zero`, or the `mean` over the batch.
    - `strength`: 0 leaves them, 1 ablates them.
    - `edits`: Which edits of the list are in force.
    """

    heads: tuple[tuple[int, int], ...] = ()
    kind: str = "zero"
    strength: float = 1.0
    edits: tuple[int, ...] = ()

    @staticmethod
    def read(data: Any, explorer: "Explorer") -> "Choice":
        """The choice in a message; raises `ValueError` for one that cannot be."""
        if not isinstance(data, Mapping):
            raise ValueError(f"not a choice: {brief(data)}")
        try:
            heads = tuple((int(a), int(b)) for a, b in data.get("heads", ()))
            strength = float(data.get("strength", 1.0))
            edits = tuple(sorted({int(k) for k in data.get("edits", ())}))
        except (TypeError, ValueError):
            raise ValueError(f"not a choice: {brief(data)}") from None
        kind = data.get("kind", "zero")
        if kind not in KINDS:
            raise ValueError(f"kind is one of {', '.join(KINDS)}, got {brief(kind)}")
        if not 0 <= strength <= 1:
            raise ValueError(f"strength is from 0 to 1, got {strength}")
        if wrong := [head for head in heads if head not in explorer.heads]:
            raise ValueError(f"there is no head {wrong[0][0]}:{wrong[0][1]}")
        if wrong := [k for k in edits if not 0 <= k < len(explorer.edits)]:
            raise ValueError(f"there is no edit {wrong[0]}")
        return Choice(tuple(dict.fromkeys(heads)), kind, strength, edits)


class Explorer:
    """Answers what a model does while some of its heads are ablated.

    The first answer compiles. After that only another set of edits from the list does:
    which heads, how strongly and to what are arguments of the program.

    **Attributes:**

    - `heads`: Pairs of layer and head that can be ablated, in order.
    - `edits`: The edits that can be put in force.
    """

    def __init__(
        self,
        model: Any,
        *inputs: Any,
        metric: Callable[..., Any],
        edits: Sequence[AbstractEdit] = (),
        outputs: str = "**.z",
        tokens: Any = None,
        labels: Sequence[str] | None = None,
    ):
        """**Arguments:** As for `opto.explore`."""
        self.model, self.inputs, self.metric = model, inputs, metric
        self.edits, self.tokens, self.labels = as_edits(edits), tokens, labels
        table = sites(model, *inputs)
        self.outputs = outputs
        self.sites = [site for site in table.match(outputs) if "head" in site.axes]
        if not self.sites:
            raise ValueError(f"no site {outputs!r} has an axis head to ablate")
        self.patterns = [
            name
            for name, site in table.items()
            if site.axes[-2:] == ("seq", "kv_seq") and name.endswith(".pattern")
        ]
        self.lens = _lens_sites(table)
        self._layers = [
            k if (layer := layer_of(site.name)) is None else layer
            for k, site in enumerate(self.sites)
        ]
        self.heads = tuple(
            (layer, head)
            for layer, site in zip(self._layers, self.sites, strict=True)
            for head in range(site.shape[site.axes.index("head")])
        )
        for edit in self.edits:
            edit.check(table)
        self._bare: tuple[Any, float | None] | None = None

    def answer(self, choice: Choice, model: Any = None) -> dict[str, Any]:
        """The metric, with and without the choice, and what to draw.

        **Arguments:** `model`: Another model of the same kind, by default its own.
        """
        model = self.model if model is None else model
        metric, record, lens = self._computed(choice, model)
        if self._bare is None or self._bare[0] is not model:
            changed = choice.edits or (choice.heads and choice.strength)
            bare = self._computed(Choice(), model)[0] if changed else metric
            self._bare = model, _number(bare)
        found = {
            "metric": _number(metric),
            "bare": self._bare[1],
            "text": self.text(choice),
            "heads": choice.heads,
        }
        if record:
            found["patterns"] = show(record, "**", tokens=self.tokens).maps.data()
        if lens is not None:
            shown = show_lens(lens, self.lens, labels=self.labels, tokens=self.tokens)
            found["lens"] = shown.maps.data()
        return found

    def text(self, choice: Choice) -> str:
        """The edits of a choice, as one would write them in a script."""
        edits = [repr(self.edits[k]) for k in choice.edits]
        if choice.heads and choice.strength:
            heads = " ".join(f"{layer}:{head}" for layer, head in choice.heads)
            where = f'heads="{heads}"'
            if choice.strength != 1:
                where += f", strength={choice.strength:g}"
            site = repr(self.outputs)
            edit = f"opto.Zero({site}, {where})"
            if choice.kind == "mean":
                edit = f"opto.Mean({site}, record, {where})"
            edits = [edit, *edits]
        start = ""
        if choice.heads and choice.kind == "mean":
            start = f"_, record = opto.run(model, *inputs, record={self.outputs!r})\n"
        return f"{start}edits = [{', '.join(edits)}]"

    def _computed(self, choice: Choice, model: Any) -> Any:
        amounts = []
        for layer, site in zip(self._layers, self.sites, strict=True):
            size = site.shape[site.axes.index("head")]
            on = [(layer, head) in choice.heads for head in range(size)]
            amounts.append(choice.strength * np.array(on, np.float32))
        edits = [self.edits[k] for k in choice.edits]
        share = np.float32(choice.kind == "mean")
        arrays, static = eqx.partition(model, eqx.is_array)
        names = tuple(site.name for site in self.sites)
        what = _Program(self.metric, names, tuple(self.patterns), tuple(self.lens))
        return _answer(arrays, static, self.inputs, edits, amounts, share, what)


@dataclasses.dataclass(frozen=True)
class _Program:
    """What does not change from answer to answer."""

    metric: Callable[..., Any]
    outputs: tuple[str, ...]
    patterns: tuple[str, ...]
    lens: tuple[str, ...]


@eqx.filter_jit
def _answer(arrays, static, inputs, edits, amounts, share, program: _Program) -> Any:
    model = eqx.combine(arrays, static)
    _, record = run(model, *inputs, record=program.outputs)
    gates = []
    for name, amount in zip(program.outputs, amounts, strict=True):
        value = record[name]
        axes = tuple(range(value.ndim - len(record.axes_of(name) or ())))
        gates.append(_Gates(name, jnp.asarray(amount), share * value.mean(axes)))
    edits = [*gates, *edits]
    outputs, record = run(model, *inputs, record=program.patterns, edits=edits)
    metric = one_number(program.metric(outputs, *inputs))
    # Only the examples that are drawn leave the program.
    few = lambda x: x[:MOST_EXAMPLES] if x.ndim > 3 else x
    record = jax.tree.map(few, record)
    lens = None
    if program.lens:
        lens, _ = logit_lens(model, *inputs, sites=program.lens, edits=edits)
        lens = lens[:, :MOST_EXAMPLES] if lens.ndim > 3 else lens
    return metric, record, lens


class _Gates(Edit):
    """Moves each head's values towards a target, as far as its gate is open."""

    amounts: Float[Array, " head"]
    target: Array

    def __init__(self, site: str, amounts: Array, target: Array):
        self.site, self.amounts, self.target = site, amounts, target
        self.where, self.strength = Where({}), known(1.0)

    def replacement(self, value: Array, site: Site) -> Array:
        place = site.axes.index("head")
        shape = [-1 if k == place else 1 for k in range(value.ndim)]
        share = self.amounts.reshape(shape).astype(value.dtype)
        return blend(value, self.target.astype(value.dtype), share)


def _number(value: Any) -> float | None:
    """A number for JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None


def _lens_sites(table: Any) -> list[str]:
    """The sites of a logit lens, if the model has those that it needs."""
    names = [*table]
    if "final.in" not in names or "logits" not in names:
        return []
    return [name for name in names if name.endswith(".resid_post")]
