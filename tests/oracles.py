"""The library's computations in plain NumPy and float64, written from the formulas."""

import math

import numpy as np


def layer_norm(x, scale, offset):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + offset


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    """The tanh form of Hendrycks & Gimpel 2016."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rope(x, theta):
    """Rotates each pair of entries, as complex numbers; x is [seq, d_head]."""
    seq, d = x.shape
    z = x[:, 0::2] + 1j * x[:, 1::2]
    angle = np.outer(np.arange(seq), theta ** (-np.arange(d // 2) * 2.0 / d))
    z = z * np.exp(1j * angle)
    return np.stack([z.real, z.imag], -1).reshape(seq, d)


def sinusoid(seq, d, theta):
    table = np.zeros((seq, d))
    for t in range(seq):
        for i in range(d // 2):
            table[t, 2 * i] = math.sin(t / theta ** (2 * i / d))
            table[t, 2 * i + 1] = math.cos(t / theta ** (2 * i / d))
    return table


def softmax_weights(query, keys, scale=None):
    """The weights of one query on the keys that it sees."""
    return softmax((keys @ query) * (len(query) ** -0.5 if scale is None else scale))


def linear_weights(query, keys, scale=None):
    """Katharopoulos et al. 2020, eq. 4 and 7: the feature map is elu + 1."""
    phi = lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
    kernel = phi(keys) @ phi(query)
    return kernel / kernel.sum()


def product_weights(query, keys, scale=None):
    """Von Oswald et al. 2023, eq. 3: weights of either sign, not normalised."""
    return (keys @ query) * (1 if scale is None else scale)


def sum_normalised_weights(query, keys, scale=None):
    """Products of vectors whose entries are divided by their sum, and 1e-6."""
    query, keys = (x / (x.sum(-1, keepdims=True) + 1e-6) for x in (query, keys))
    return (keys @ query) * (1 if scale is None else scale)


def rela_weights(query, keys, scale=None):
    """Zhang et al. 2021: the positive parts of scores, not normalised."""
    scale = len(query) ** -0.5 if scale is None else scale
    return np.maximum(scale * (keys @ query), 0)


def gated(z, gain, gate):
    """ReLA's norm over all heads, with gain and gate; z is [seq, head, d_head]."""
    size = np.sqrt((z**2).mean((1, 2), keepdims=True) + 1e-8)
    return z / size * gain / (1 + np.exp(-gate * z))


def favor_weights(query, keys, scale=None, *, directions):
    """Choromanski et al. 2021, lemma 1: positive random features, normalised."""
    scale = len(query) ** -0.5 if scale is None else scale
    query, keys = math.sqrt(scale) * query, math.sqrt(scale) * keys
    phi = lambda x: np.exp(x @ directions - (x**2).sum(-1, keepdims=True) / 2)
    kernel = phi(keys) @ phi(query)
    return kernel / kernel.sum()


def unstabilised_favor_weights(query, keys, scale=None, *, directions):
    """As in the README of limits_of_icl's reference data."""
    d_head, count = directions.shape
    query, keys = query / math.sqrt(d_head), keys / math.sqrt(d_head)
    phi = lambda x: np.exp(x @ directions - (x**2).sum(-1, keepdims=True) / 2)
    kernel = phi(keys) @ phi(query) / count
    return kernel / (kernel.sum() + 1e-6)


def _rescaled(x, gain, offset):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + 1e-6) + offset


def rebased_weights(query, keys, scale=None, *, gain, offset):
    """Aksenov et al. 2024, eq. 7: features are all products of two entries."""
    scale = len(query) ** -0.5 if scale is None else scale
    query, keys = _rescaled(query, gain, offset), _rescaled(keys, gain, offset)
    phi = lambda x: np.einsum("...i,...j->...ij", x, x).reshape(*x.shape[:-1], -1)
    kernel = scale**2 * (phi(keys) @ phi(query))
    return kernel / (kernel.sum() + 1e-6)


def elementwise_weights(query, keys, scale=None, *, gain, offset):
    """As in the README of limits_of_icl's reference data."""
    kernel = _rescaled(keys, gain, offset) ** 2 @ _rescaled(query, gain, offset) ** 2
    return kernel / (kernel.sum() + 1e-6)


def attention(x, w, *, num_heads, weights, mix, seen, scale, theta):
    """Attention, one head and one query at a time.

    `w` has query, key, value, output (and biases), `weights` a function for each head,
    and `seen` says which keys each query sees. Returns the output and the patterns
    [head, query, key].
    """
    seq, d_model = x.shape
    d = d_model // num_heads
    q, k, v = (x @ w[n].T + w.get(f"{n}_bias", 0) for n in ("query", "key", "value"))
    shared = num_heads // (k.shape[1] // d)  # Heads that share keys.
    patterns = np.zeros((num_heads, *seen.shape))
    z = np.zeros((seq, d_model))
    for h in range(num_heads):
        part = slice(h * d, (h + 1) * d)
        other = slice(h // shared * d, (h // shared + 1) * d)
        qh, kh = q[:, part], k[:, other]
        if theta is not None:
            qh, kh = rope(qh, theta), rope(kh, theta)
        for i in range(seq):
            keys = np.flatnonzero(seen[i])
            row = weights[h](qh[i], kh[keys], scale)
            patterns[h, i, keys] = row
            z[i, part] = row @ v[keys][:, other]
    z = mix(z.reshape(seq, num_heads, d)).reshape(seq, d_model)
    return z @ w["output"].T, patterns


def transformer(
    examples,
    labels,
    w,
    *,
    heads,
    kinds=None,
    seen=None,
    scale=None,
    theta=1e4,
):
    """The logits of all tokens and each layer's patterns, for one sequence.

    `w` is the tree of weights from `weights_of`; `theta` is None without RoPE. For each
    layer, `kinds` has the weights of each head and what is done after `z` (softmax
    without it), and `seen` says who sees whom, `[query, key]` (causal without it).
    """
    context = len(examples) - 1
    if "exemplar" in w:
        exemplars = examples @ w["exemplar"].T + w["exemplar_bias"]
    else:
        exemplars = w["exemplar_table"][examples]
    tokens = []
    for i in range(context):
        tokens += [exemplars[i], w["label_table"][labels[i]]]
    x = np.array([*tokens, exemplars[context]]) + w.get("added", 0.0)
    patterns = []
    kinds = kinds or [([softmax_weights] * count, lambda z: z) for count in heads]
    seen = seen or [np.tri(len(x), dtype=bool)] * len(heads)
    layers = zip(w["blocks"], heads, kinds, seen, strict=True)
    for block, num_heads, (weights, mix), sees in layers:
        normed = layer_norm(x, *block["norm"]) if "norm" in block else x
        out, pattern = attention(
            normed,
            block,
            num_heads=num_heads,
            weights=weights,
            mix=mix,
            seen=sees,
            scale=scale,
            theta=theta,
        )
        x = x + out
        patterns.append(pattern)
        if "expand" in block:
            normed = layer_norm(x, *block["mlp_norm"]) if "norm" in block else x
            hidden = gelu(normed @ block["expand"].T + block["expand_bias"])
            x = x + hidden @ block["contract"].T + block["contract_bias"]
    if "norm" in w:
        x = layer_norm(x, *w["norm"])
    return x @ w["unembed"].T + w["unembed_bias"], patterns


def weights_of(model):
    """The arrays of an `ExemplarLabelModel` by name, in float64."""
    f = lambda x: np.asarray(x, np.float64)
    w = {"label_table": f(model.embedding.label.weight)}
    exemplar = model.embedding.exemplar
    if hasattr(exemplar, "bias"):
        w |= {"exemplar": f(exemplar.weight), "exemplar_bias": f(exemplar.bias)}
    else:
        w["exemplar_table"] = f(exemplar.weight)
    w["blocks"] = []
    for block in model.blocks:
        row = {}
        for name in ("query", "key", "value", "output"):
            layer = getattr(block.attn, name)
            row[name] = f(layer.weight)
            if layer.bias is not None:
                row[f"{name}_bias"] = f(layer.bias)
        if hasattr(block.attn_norm, "weight"):
            row["norm"] = (f(block.attn_norm.weight), f(block.attn_norm.bias))
        if block.mlp is not None:
            for name in ("expand", "contract"):
                layer = getattr(block.mlp, name)
                row |= {name: f(layer.weight), f"{name}_bias": f(layer.bias)}
            if hasattr(block.mlp_norm, "weight"):
                row["mlp_norm"] = (f(block.mlp_norm.weight), f(block.mlp_norm.bias))
        w["blocks"].append(row)
    if hasattr(model.final_norm, "weight"):
        w["norm"] = (f(model.final_norm.weight), f(model.final_norm.bias))
    return w | {
        "unembed": f(model.unembed.weight),
        "unembed_bias": f(model.unembed.bias),
    }


def descended(x, y, rate):
    """Linear regression: predicts the last values after one step from weights 0.

    The step is gradient descent on half the squared error, averaged over the context.
    `x` is `[task, point, dim]` and `y` is `[task, point]`.
    """
    gradient = np.einsum("tnd,tn->td", x[:, :-1], y[:, :-1]) / (x.shape[1] - 1)
    return rate * np.einsum("td,td->t", gradient, x[:, -1])


def exact_gelu(x):
    return np.vectorize(lambda t: 0.5 * t * (1 + math.erf(t / math.sqrt(2))))(x)


def gpt2(arrays, settings, ids):
    """The logits of a GPT-2 (Radford et al. 2019) from arrays as Hugging Face names
    them, without prefix; `settings` is a whole `config.json`."""
    at = lambda name: np.asarray(arrays[name], np.float64)
    dense = lambda x, name: x @ at(f"{name}.weight") + at(f"{name}.bias")
    act = {"gelu_new": gelu, "gelu": exact_gelu, "relu": lambda x: np.maximum(x, 0)}

    def norm(x, name):
        mean = x.mean(-1, keepdims=True)
        power = ((x - mean) ** 2).mean(-1, keepdims=True)
        scaled = (x - mean) / np.sqrt(power + settings["layer_norm_epsilon"])
        return scaled * at(f"{name}.weight") + at(f"{name}.bias")

    seq, heads = len(ids), settings["n_head"]
    x = at("wte.weight")[ids] + at("wpe.weight")[:seq]
    for i in range(settings["n_layer"]):
        qkv = np.split(dense(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, -1)
        q, k, v = (np.stack(np.split(part, heads, -1)) for part in qkv)
        scores = q @ k.swapaxes(1, 2)
        if settings["scale_attn_weights"]:
            scores = scores / math.sqrt(q.shape[-1])
        if settings["scale_attn_by_inverse_layer_idx"]:
            scores = scores / (i + 1)
        scores = np.where(np.tri(seq, dtype=bool), scores, -np.inf)
        z = np.concatenate([*(softmax(scores) @ v)], -1)
        x = x + dense(z, f"h.{i}.attn.c_proj")
        hidden = dense(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        hidden = act[settings["activation_function"]](hidden)
        x = x + dense(hidden, f"h.{i}.mlp.c_proj")
    table = "lm_head" if not settings["tie_word_embeddings"] else "wte"
    return norm(x, "ln_f") @ at(f"{table}.weight").T
