"""Models with taps that know nothing of icl, and helpers that the opto tests share.

`MODELS` is the table of models with their inputs. `EDITS` is the table of edits, each
with its effect in NumPy.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import opto
from icl.models import exemplar_label_interface, TransformerConfig
from icl.roles import EXEMPLAR, LABEL, QUERY


class MLP(eqx.Module):
    """Has sites at every layer, a site with an axis `layer`, and fields without arrays.

    It has no `input_axes`, so its inputs are always one example.
    """

    layers: tuple[eqx.nn.Linear, ...]
    readout: eqx.nn.Linear
    activation: Callable
    name: str

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.layers = tuple(eqx.nn.Linear(4, 4, key=k) for k in keys[:3])
        self.readout = eqx.nn.Linear(12, 2, key=keys[3])
        self.activation = jax.nn.gelu
        self.name = "mlp"

    def __call__(self, x, *, tap=opto.identity):
        hiddens = []
        for i, layer in enumerate(self.layers):
            here = tap.scope("layers").scope(str(i))
            pre = here("pre", layer(x), "hidden")
            x = here("post", self.activation(pre), "hidden")
            hiddens.append(x)
        hiddens = tap("hiddens", jnp.stack(hiddens), "layer hidden")
        return tap("out", self.readout(hiddens.ravel()), "label")


class CNN(eqx.Module):
    """Has sites with three axes and with none, integers and booleans; takes a key."""

    conv: eqx.nn.Conv2d
    embedding: jax.Array
    dropout: eqx.nn.Dropout
    input_axes: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, key):
        keys = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(2, 3, 3, key=keys[0])
        self.embedding = jax.random.normal(keys[1], (5, 2))
        self.dropout = eqx.nn.Dropout(0.3)
        self.input_axes = ("channel height width", "")

    def __call__(self, image, key, *, tap=opto.identity):
        maps = tap("maps", self.conv(image), "channel row column")
        dropped = tap("dropped", self.dropout(maps, key=key), "channel row column")
        gate = tap("gate", dropped > 0, "channel row column")
        gated = tap("gated", jnp.where(gate, dropped, -0.1), "channel row column")
        # Nothing reads this value: an edit here changes only the record.
        tap("peak", jnp.max(gated), "")
        winner = tap("winner", jnp.argmax(gated, 0), "row column")
        features = tap("features", self.embedding[winner], "row column feature")
        return features.sum((0, 1)) + gated.sum()


class Heads(eqx.Module):
    """Attention whose weights all have a head axis."""

    query: jax.Array
    key: jax.Array
    value: jax.Array
    output: jax.Array

    def __init__(self, heads, key):
        keys = jax.random.split(key, 4)
        shapes = [(heads, 2, 6)] * 3 + [(heads, 6, 2)]
        self.query, self.key, self.value, self.output = (
            0.6 * jax.random.normal(k, shape)
            for k, shape in zip(keys, shapes, strict=True)
        )

    def __call__(self, x, *, tap=opto.identity):
        q = tap("q", jnp.einsum("hkd,sd->hsk", self.query, x), "head seq d_head")
        k = tap("k", jnp.einsum("hkd,sd->hsk", self.key, x), "head seq d_head")
        v = tap("v", jnp.einsum("hkd,sd->hsk", self.value, x), "head seq d_head")
        # Recomputed in the backward pass; the taps are outside.
        pattern = tap("pattern", jax.checkpoint(_pattern)(q, k), "head seq kv_seq")
        z = tap("z", jnp.einsum("hst,htk->hsk", pattern, v), "head seq d_head")
        return tap("out", jnp.einsum("hdk,hsk->sd", self.output, z), "seq d_model")


def _pattern(q, k):
    scores = jnp.einsum("hsk,htk->hst", q, k)
    return jax.nn.softmax(jnp.where(jnp.tri(q.shape[1]) > 0, scores, -1e9))


class Ragged(eqx.Module):
    """Two layers of attention with two and three heads."""

    layers: tuple[Heads, ...]

    input_axes = ("seq d_model",)

    def __init__(self, key):
        keys = jax.random.split(key)
        self.layers = tuple(Heads(n, k) for n, k in zip((2, 3), keys, strict=True))

    def __call__(self, x, *, tap=opto.identity):
        x = tap("embed", x, "seq d_model")
        for i, layer in enumerate(self.layers):
            here = tap.scope(f"layers.{i}")
            x = here("resid", x + layer(x, tap=here), "seq d_model")
        return x


class Waves(eqx.Module):
    """Two layers of two and three heads; compiles very fast."""

    weights: tuple[jax.Array, ...]

    input_axes = ("seq d_head",)

    def __init__(self, key):
        keys = jax.random.split(key)
        shapes = ((2, 4, 2), (3, 4, 2))
        self.weights = tuple(
            jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)
        )

    def __call__(self, x, *, tap=opto.identity):
        x = tap("embed", x, "seq d_head")
        for i, weight in enumerate(self.weights):
            here = tap.scope(f"layers.{i}")
            q = here("q", weight * x, "head seq d_head")
            z = here("z", jnp.cos(q), "head seq d_head")
            x = x + z.sum(0)
        return x


class Tokens(eqx.Module):
    """One head with uniform attention; names the role of each token."""

    input_axes = ("exemplar",)

    def __call__(self, labels, *, tap=opto.identity):
        size = 2 * len(labels) - 1
        tokens = tap.scope("tokens")
        roles = [EXEMPLAR, LABEL] * (len(labels) - 1) + [QUERY]
        tokens("role", jnp.array(roles), "seq")
        tokens("pair", jnp.arange(size) // 2, "seq")
        tokens("label", labels, "exemplar")
        scores = jnp.where(jnp.tri(size) > 0, jnp.zeros((1, size, size)), -1e20)
        scores = tap("scores", scores, "head seq kv_seq")
        return tap("pattern", jax.nn.softmax(scores), "head seq kv_seq")


def transformer():
    config = TransformerConfig(num_layers=1, d_model=12, num_heads=3, mlp_ratio=1.0)
    interface = exemplar_label_interface(4, dim=3)
    # Compiled, because initialisation otherwise takes seconds.
    return eqx.filter_jit(config.build)(interface, key=jax.random.key(3))


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    # One input is a NumPy array.
    "mlp": lambda: (MLP(jax.random.key(0)), (_normal(0, 4),)),
    "cnn": lambda: (
        CNN(jax.random.key(1)),
        (jnp.asarray(_normal(1, 2, 4, 5)), jax.random.key(11)),
    ),
    "ragged": lambda: (Ragged(jax.random.key(2)), (jnp.asarray(_normal(2, 4, 6)),)),
    "transformer": lambda: (
        transformer(),
        (jnp.asarray(_normal(3, 3, 3)), jnp.array([1, 0, 2])),
    ),
}


class Counted(eqx.Module):
    """Counts how often Python runs the model, which is how often JAX traces it."""

    model: eqx.Module
    count: list = eqx.field(static=True)

    @property
    def input_axes(self):
        return getattr(self.model, "input_axes", None)

    def __call__(self, *inputs, tap=opto.identity):
        self.count.append(1)
        return self.model(*inputs, tap=tap)


class Count(list):
    """A list compared by identity, so that it can be a static field."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Plain(opto.Tap):
    """A tap that does nothing, as in a model without this library."""

    def __call__(self, name, value, axes, *, rows=None):
        return value

    def scope(self, name):
        return self

    def wants(self, *names):
        return False


class Negate(opto.toolkit.Edit):
    """A user's own edit: changes the sign of the selected entries."""

    def replacement(self, value, site):
        return -value


class Apply(opto.toolkit.Edit):
    """A user's own edit with a function as a non-static field."""

    function: Callable

    def __init__(self, site, function, **where):
        super().__init__(site, **where)
        self.function = function

    def replacement(self, value, site):
        return self.function(value)


@dataclasses.dataclass
class Case:
    """An edit of one site: how to make it, and its effect.

    `make(site, **keywords)` makes the edit. `target(value)` gives the values of the
    whole site at strength 1, and `mask(shape)` the entries that take them.
    """

    make: Callable[..., opto.toolkit.Edit]
    target: Callable[[np.ndarray], np.ndarray]
    mask: Callable[[tuple[int, ...]], np.ndarray] = lambda shape: np.ones(shape, bool)


def _first(shape):
    mask = np.zeros(shape, bool)
    mask[[0, -1]] = True
    return mask


def _scattered(shape):
    """Selects a third of all entries, scattered."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3 == 1


def _scattered_last(shape):
    mask = np.zeros(shape, bool)
    mask[-1] = _scattered(shape)[-1]
    return mask


def _draw(shape):
    return _normal(7, *shape)


def _column(shape):
    return _draw((shape[0], *[1] * (len(shape) - 1)))


def _recorded(site, values):
    return opto.toolkit.Record(
        {site.name: jnp.asarray(values)}, ((site.name, site.axes),)
    )


EDITS: dict[str, Case] = {
    "zero": Case(lambda s, **k: opto.Zero(s.name, **k), np.zeros_like),
    "number": Case(
        lambda s, **k: opto.Clamp(s.name, 0.7, **k),
        lambda v: np.full_like(v, 0.7),
    ),
    "array": Case(
        lambda s, **k: opto.Clamp(s.name, _draw(s.shape), **k),
        lambda v: _draw(v.shape),
    ),
    "length_one": Case(
        lambda s, **k: opto.Clamp(s.name, _column(s.shape), **k),
        lambda v: np.broadcast_to(_column(v.shape), v.shape),
    ),
    "last_axis": Case(
        lambda s, **k: opto.Clamp(s.name, _draw(s.shape[-1:]), axes=s.axes[-1], **k),
        lambda v: np.broadcast_to(_draw(v.shape[-1:]), v.shape),
    ),
    "axes_reversed": Case(
        lambda s, **k: opto.Clamp(
            s.name, _draw(s.shape[::-1]), axes=" ".join(s.axes[::-1]), **k
        ),
        lambda v: _draw(v.shape[::-1]).T,
    ),
    "first_and_last": Case(
        lambda s, **k: opto.Zero(s.name, **{s.axes[0]: [0, -1]}, **k),
        np.zeros_like,
        _first,
    ),
    "mask": Case(
        lambda s, **k: opto.Clamp(
            s.name, _draw(s.shape), mask=_scattered(s.shape), **k
        ),
        lambda v: _draw(v.shape),
        _scattered,
    ),
    "mask_and_axis": Case(
        lambda s, **k: opto.Zero(
            s.name, mask=_scattered(s.shape), **{s.axes[0]: -1}, **k
        ),
        np.zeros_like,
        _scattered_last,
    ),
    "mask_of_length_one": Case(
        lambda s, **k: opto.Zero(s.name, mask=_first(_column(s.shape).shape), **k),
        np.zeros_like,
        _first,
    ),
    "scale": Case(lambda s, **k: opto.Scale(s.name, -0.5, **k), lambda v: -0.5 * v),
    "scale_by_axis": Case(
        lambda s, **k: opto.Scale(s.name, _draw(s.shape[:1]), axes=s.axes[0], **k),
        lambda v: v * _column(v.shape),
    ),
    "steer": Case(
        lambda s, **k: opto.Steer(s.name, _draw(s.shape[-1:]), axes=s.axes[-1], **k),
        lambda v: v + _draw(v.shape[-1:]),
    ),
    "patch": Case(
        lambda s, **k: opto.Patch(
            s.name, {"else": 0.0, s.name: _draw(s.shape)}, **{s.axes[0]: [0, -1]}, **k
        ),
        lambda v: _draw(v.shape),
        _first,
    ),
    # The mean of two: sums of more may round differently.
    "mean": Case(
        lambda s, **k: opto.Mean(s.name, _recorded(s, _draw((2, *s.shape))), **k),
        lambda v: _draw((2, *v.shape)).sum(0) / 2,
    ),
    "mean_given": Case(
        lambda s, **k: opto.Mean(s.name, {s.name: _draw(s.shape)}, **k),
        lambda v: _draw(v.shape),
    ),
    "negate": Case(
        lambda s, **k: Negate(s.name, **{s.axes[0]: [-1, 0, -1]}, **k),
        lambda v: -v,
        _first,
    ),
    "apply": Case(lambda s, **k: Apply(s.name, jnp.abs, **k), np.abs),
}
