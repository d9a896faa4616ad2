"""Models without taps, written as their authors would write them."""

import equinox as eqx
import jax
import jax.numpy as jnp

import opto


class Layer(eqx.Module):
    """A layer of an encoder: attention and an MLP, each after a norm."""

    norm1: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    norm2: eqx.nn.RMSNorm
    mlp: eqx.nn.MLP

    def __init__(self, width, key):
        keys = jax.random.split(key)
        self.norm1 = eqx.nn.LayerNorm(width)
        self.attention = eqx.nn.MultiheadAttention(
            2, width, use_output_bias=True, key=keys[0]
        )
        self.norm2 = eqx.nn.RMSNorm(width)
        self.mlp = eqx.nn.MLP(width, width, 2 * width, 1, key=keys[1])

    def __call__(self, x):
        h = jax.vmap(self.norm1)(x)
        x = x + self.attention(h, h, h, mask=jnp.tri(len(x), dtype=bool))
        return x + jax.vmap(self.mlp)(jax.vmap(self.norm2)(x))


class Encoder(eqx.Module):
    """Tokens, two layers, logits."""

    embed: eqx.nn.Embedding
    layers: list[Layer]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key, width=8, layers=2):
        first, *keys, last = jax.random.split(key, layers + 2)
        self.embed = eqx.nn.Embedding(6, width, key=first)
        self.layers = [Layer(width, k) for k in keys]
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, 6, key=last)

    def __call__(self, ids):
        x = jax.vmap(self.embed)(ids)
        for layer in self.layers:
            x = layer(x)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


class Stack(eqx.Module):
    """Three layers, made by `filter_vmap` and run by a scan with checkpoints."""

    layers: Layer

    def __init__(self, key):
        make = lambda key: Layer(8, key)
        self.layers = eqx.filter_vmap(make)(jax.random.split(key, 3))

    def __call__(self, x):
        weights, rest = eqx.partition(self.layers, eqx.is_array)

        @jax.checkpoint
        def step(x, of_layer):
            return eqx.combine(of_layer, rest)(x), None

        return jax.lax.scan(step, x, weights)[0]

    def layer(self, i):
        """Layer i by itself."""
        return jax.tree.map(lambda x: x[i] if eqx.is_array(x) else x, self.layers)


class Counting(eqx.Module):
    """A model with a state: it counts its calls."""

    count: eqx.nn.StateIndex
    linear: eqx.nn.Linear
    relu: eqx.nn.Lambda

    def __init__(self, key):
        self.count = eqx.nn.StateIndex(jnp.array(0))
        self.linear = eqx.nn.Linear(3, 3, key=key)
        self.relu = eqx.nn.Lambda(jax.nn.relu)

    def __call__(self, x, state):
        state = state.set(self.count, state.get(self.count) + 1)
        return self.relu(self.linear(self.relu(self.linear(x)))), state


class Mixer(eqx.Module):
    """One block of an MLP-mixer: over patches, then over channels."""

    patches: eqx.nn.MLP
    channels: eqx.nn.MLP
    norm: eqx.nn.LayerNorm

    def __init__(self, key):
        keys = jax.random.split(key)
        self.patches = eqx.nn.MLP(4, 4, 5, 1, key=keys[0])
        self.channels = eqx.nn.MLP(3, 3, 5, 1, key=keys[1])
        self.norm = eqx.nn.LayerNorm((3, 4))

    def __call__(self, x):
        x = x + jax.vmap(self.patches)(self.norm(x))
        return x + jax.vmap(self.channels, in_axes=1, out_axes=1)(x)


class Recurrent(eqx.Module):
    """A GRU under a scan; the read-out depends on the sign of the first input."""

    cell: eqx.nn.GRUCell
    plus: eqx.nn.Linear
    minus: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.cell = eqx.nn.GRUCell(2, 3, key=keys[0])
        self.plus = eqx.nn.Linear(3, 1, key=keys[1])
        self.minus = eqx.nn.Linear(3, 1, key=keys[2])

    def __call__(self, xs):
        step = lambda h, x: (self.cell(x, h), None)
        h = jax.lax.scan(step, jnp.zeros(3), xs)[0]
        plus, minus = lambda h: self.plus(h), lambda h: self.minus(h)
        return jax.lax.cond(xs[0, 0] > 0, plus, minus, h)


class Silent(eqx.Module):
    """A submodule whose output is 0: what `opto.Zero` should amount to."""

    inner: eqx.Module

    def __call__(self, *args, **keywords):
        out = self.inner(*args, **keywords)
        if isinstance(out, tuple):
            return (jnp.zeros_like(out[0]), *out[1:])
        return jnp.zeros_like(out)


def models():
    """By name: a model, its inputs, and the axes of one example."""
    keys = jax.random.split(jax.random.key(0), 9)
    state = eqx.nn.make_with_state(Counting)(keys[0])
    draw = jax.random.normal
    return {
        "encoder": (
            Encoder(keys[1]),
            (jnp.array([[0, 1, 2, 3, 1], [1, 2, 1, 2, 5]]),),
            ("seq",),
        ),
        "stack": (Stack(keys[2]), (draw(keys[3], (2, 5, 8)),), ("seq d_model",)),
        "state": (state[0], (draw(keys[4], (3,)), state[1]), None),
        "mixer": (Mixer(keys[5]), (draw(keys[6], (3, 4)),), None),
        "recurrent": (Recurrent(keys[7]), (draw(keys[8], (4, 6, 2)),), ("step dim",)),
    }


class Named(Encoder):
    """An encoder with the same submodules and with taps, written by hand."""

    input_axes = ("seq",)

    def __call__(self, ids, *, tap=opto.identity):
        x = tap("embed", jax.vmap(self.embed)(ids), "seq d_model")
        for i, layer in enumerate(self.layers):
            here = tap.scope(f"blocks.{i}")
            x = here("resid_pre", x, "seq d_model")
            x = x + _attend(layer, x, here.scope("attn"))
            out = jax.vmap(layer.mlp)(jax.vmap(layer.norm2)(x))
            x = x + here("mlp.out", out, "seq d_model")
            x = here("resid_post", x, "seq d_model")
        return tap("logits", jax.vmap(self.head)(jax.vmap(self.norm)(x)), "seq label")


def _attend(layer, x, tap):
    attention, softmax = layer.attention, opto.toolkit.Rows("logits", "softmax")
    x = tap("in", jax.vmap(layer.norm1)(x), "seq d_model")
    width = x.shape[-1]
    split = lambda w: w.weight.reshape(2, -1, width)
    project = lambda w: jnp.einsum("hdm,sm->hsd", split(w), x)
    q = tap("q", project(attention.query_proj), "head seq d_head")
    k = tap("k", project(attention.key_proj), "head seq d_head")
    v = tap("v", project(attention.value_proj), "head seq d_head")
    scores = q @ k.mT / jnp.sqrt(width / 2)
    scores = jnp.where(jnp.tri(len(x)) > 0, scores, jnp.finfo(x.dtype).min)
    scores = tap("scores", scores, "head seq kv_seq", rows=softmax)
    pattern = tap("pattern", jax.nn.softmax(scores), "head seq kv_seq")
    z = tap("z", pattern @ v, "head seq d_head")
    weight = attention.output_proj.weight.reshape(width, 2, -1)
    if tap.wants("result"):
        result = jnp.einsum("mhd,hsd->hsm", weight, z)
        out = tap("result", result, "head seq d_model").sum(0)
    else:
        out = jnp.einsum("mhd,hsd->sm", weight, z)
    return tap("out", out + attention.output_proj.bias, "seq d_model")


NAMES = {
    "embed": "embed[seq d_model]",
    "layers.*": {
        "input": "blocks.*.resid_pre[seq d_model]",
        "output": "blocks.*.resid_post[seq d_model]",
    },
    "layers.*.norm1": "blocks.*.attn.in[seq d_model]",
    "layers.*.attention": "blocks.*.attn.out[seq d_model]",
    "layers.*.mlp": "blocks.*.mlp.out[seq d_model]",
    "head": "logits[seq label]",
}


def twins(model):
    """An encoder, opened by names, and the same one with taps written by hand."""
    named = object.__new__(Named)
    for name, value in vars(model).items():
        object.__setattr__(named, name, value)
    return opto.tapped(model, NAMES, input_axes=("seq",)), named
