"""GPT-2 models of points: against the public code limits_of_icl, and its files."""

import base64
import functools
import io
import json
import math
import os
import pathlib
import pickle
import re
import zipfile
import zlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import opto
from icl.compat.limits_of_icl import load_model, load_state


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/limits_of_icl"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
KINDS = ("gpt2", "softmax_causal", "local", "local_global", "mqa", "rela", "favor")
KINDS += ("rebased",)


@functools.cache
def read(kind):
    with np.load(REFERENCE / f"{kind}.npz") as data:
        return dict(data)


def constructor_of(kind):
    kinds = json.loads((REFERENCE / "config.json").read_text())["kinds"]
    return kinds[kind]["constructor"]


# What the public code computes


@needs_reference
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_the_reference(kind):
    data = read(kind)
    parameters = {name: x for name, x in data.items() if name.startswith("_")}
    model = load_model(parameters, json.dumps(constructor_of(kind)))
    xs, ys = jnp.asarray(data["xs"]), jnp.asarray(data["ys"])
    prediction, found = opto.run(model, xs, ys, record="**")
    same = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    same(prediction, data["output"])
    same(jax.jit(jax.vmap(model))(xs, ys), data["output"])
    same(((prediction - ys) ** 2).mean(), data["loss"])
    sites = {"embed": "embed", "final_normed": "final.normed"}
    for i in range(2):
        sites |= {
            f"h.{i}.attn_normed": f"blocks.{i}.attn.normed",
            f"h.{i}.pattern": f"blocks.{i}.attn.pattern",
            f"h.{i}.attn_out": f"blocks.{i}.attn.out",
            f"h.{i}.mlp_out": f"blocks.{i}.mlp.out",
            f"h.{i}.block_out": f"blocks.{i}.resid_post",
        }
        last = "z_post" if kind == "rela" else "z"
        z = np.moveaxis(np.asarray(found[f"blocks.{i}.attn.{last}"]), 1, 2)
        same(z.reshape(4, 16, 16), data[f"act/h.{i}.attn_pre_proj"])
    for theirs, ours in sites.items():
        same(found[ours], data[f"act/{theirs}"], err_msg=theirs)
    compared = {f"act/{name}" for name in sites}
    compared |= {f"act/h.{i}.attn_pre_proj" for i in range(2)}
    assert compared == {name for name in data if name.startswith("act/")}


# Other sizes, against NumPy


def sized(kind, **changes):
    family = "gpt2" if kind == "gpt2" else "nanogpt"
    sizes = {"n_dims": 5, "n_positions": 7, "n_embd": 12, "n_layer": 3, "n_head": 3}
    return {"family": family, **sizes, "attention_type": kind, **changes}


def arrays_of(constructor, seed=0):
    """Random arrays with the names and shapes of the public code."""
    rng = np.random.default_rng(seed)
    kind, width = constructor["attention_type"], constructor["n_embd"]
    d_head = width // constructor["n_head"]
    features = (constructor.get("attention_kwargs") or {}).get("rf_dim", 2 * d_head)
    apart = {"q_proj": width, "k_proj": d_head, "v_proj": d_head}
    outputs = apart if kind == "mqa" else {"c_attn": 3 * width}
    own = {
        "rela": {"rms_gain": (width,), "gate_w": (width,)},
        "favor": {"omega": (d_head, features)},
        "rebased": dict.fromkeys(("gamma", "beta"), (width // d_head, d_head)),
    }
    back = "_backbone." if kind == "gpt2" else "_backbone.transformer."
    shapes = {"_read_in.weight": (width, constructor["n_dims"])}
    shapes |= {"_read_in.bias": (width,), "_read_out.weight": (1, width)}
    shapes |= {"_read_out.bias": (1,)}
    shapes[f"{back}wpe.weight"] = 2 * constructor["n_positions"], width
    for i in range(constructor["n_layer"]):
        layers = {f"attn.{name}": (size, width) for name, size in outputs.items()}
        layers |= {"attn.c_proj": (width, width), "mlp.c_fc": (4 * width, width)}
        layers["mlp.c_proj"] = width, 4 * width
        for name, shape in layers.items():
            stored = shape[::-1] if kind == "gpt2" else shape
            shapes[f"{back}h.{i}.{name}.weight"] = stored
            shapes[f"{back}h.{i}.{name}.bias"] = shape[:1]
        for name in ("ln_1", "ln_2"):
            for part in ("weight", "bias"):
                shapes[f"{back}h.{i}.{name}.{part}"] = (width,)
        for name, shape in own.get(kind, {}).items():
            shapes[f"{back}h.{i}.attn.{name}"] = shape
    shapes |= {f"{back}ln_f.weight": (width,), f"{back}ln_f.bias": (width,)}
    draw = lambda shape: (0.4 * rng.normal(size=shape)).astype(np.float32)
    return {name: draw(shape) for name, shape in shapes.items()}


def seen_by(constructor, seq):
    """Which tokens a token sees: windows and global positions count tokens."""
    given = constructor.get("attention_kwargs") or {}
    size, shared = given.get("local_window_size"), given.get("global_attn_indices", ())
    if constructor["attention_type"] != "local_global" or size is None:
        return np.tri(seq, dtype=bool)
    return np.array(
        [
            [
                k <= q and (q - k < size or k in shared or q in shared)
                for k in range(seq)
            ]
            for q in range(seq)
        ]
    )


def gathered(kind, q, k, v, seen, own):
    """What each head gathers, [head, seq, d_head], from the README's formulas."""
    d_head = q.shape[-1]
    if kind in ("gpt2", "softmax_causal", "local_global", "mqa"):
        scores = q @ k.swapaxes(1, 2) / math.sqrt(d_head)
        return oracles.softmax(np.where(seen, scores, -np.inf)) @ v
    if kind == "rela":
        kernel = np.maximum(q @ k.swapaxes(1, 2) / math.sqrt(d_head), 0)
        return np.where(seen, kernel, 0) @ v
    if kind == "favor":
        omega = own("omega")

        def features(x):
            x = x / math.sqrt(d_head)
            power = (x**2).sum(-1, keepdims=True) / 2
            return np.exp(x @ omega - power) / math.sqrt(omega.shape[1])

    else:

        def features(x):
            mean = x.mean(-1, keepdims=True)
            power = ((x - mean) ** 2).mean(-1, keepdims=True)
            normed = (x - mean) / np.sqrt(power + 1e-6)
            return (own("gamma")[:, None] * normed + own("beta")[:, None]) ** 2

    kernel = np.where(seen, features(q) @ features(k).swapaxes(1, 2), 0)
    return kernel / (kernel.sum(-1, keepdims=True) + 1e-6) @ v


def predictions(arrays, constructor, xs, ys):
    kind, heads = constructor["attention_type"], constructor["n_head"]
    back = "_backbone." if kind == "gpt2" else "_backbone.transformer."
    at = lambda name: np.asarray(arrays[name], np.float64)

    def dense(x, name, scope=back):
        weight = at(f"{scope}{name}.weight")
        turned = weight if kind == "gpt2" and scope else weight.T
        return x @ turned + at(f"{scope}{name}.bias")

    norm = lambda x, name: oracles.layer_norm(
        x, at(f"{back}{name}.weight"), at(f"{back}{name}.bias")
    )
    gelu = oracles.gelu if kind == "gpt2" else oracles.exact_gelu
    tokens = np.zeros((2 * len(xs), xs.shape[1]))
    tokens[::2], tokens[1::2, 0] = xs, ys
    x = dense(tokens, "_read_in", "") + at(f"{back}wpe.weight")[: len(tokens)]
    for i in range(constructor["n_layer"]):
        h = f"h.{i}."
        normed = norm(x, f"{h}ln_1")
        if kind == "mqa":
            q = np.stack(np.split(dense(normed, f"{h}attn.q_proj"), heads, -1))
            k, v = (dense(normed, f"{h}attn.{n}_proj")[None] for n in "kv")
        else:
            qkv = np.split(dense(normed, f"{h}attn.c_attn"), 3, -1)
            q, k, v = (np.stack(np.split(part, heads, -1)) for part in qkv)
        own = lambda name, h=h: at(f"{back}{h}attn.{name}")
        z = gathered(kind, q, k, v, seen_by(constructor, len(x)), own)
        z = np.concatenate([*z], -1)
        if kind == "rela":
            gate = 1 / (1 + np.exp(-own("gate_w") * z))
            power = (z**2).mean(-1, keepdims=True)
            z = z / np.sqrt(power + 1e-8) * own("rms_gain") * gate
        x = x + dense(z, f"{h}attn.c_proj")
        hidden = gelu(dense(norm(x, f"{h}ln_2"), f"{h}mlp.c_fc"))
        x = x + dense(hidden, f"{h}mlp.c_proj")
    return dense(norm(x, "ln_f"), "_read_out", "")[::2, 0]


SIZED = {
    "gpt2": sized("gpt2"),
    "softmax": sized("softmax_causal", attention_kwargs=None),
    "window": sized("local_global", attention_kwargs={"local_window_size": 3}),
    "globals": sized(
        "local_global",
        attention_kwargs={
            "local_window_size": 2,
            "global_attn_indices": [1, 6, 50, -1],
        },
    ),
    "no_window": sized("local_global", attention_kwargs={"global_attn_indices": [2]}),
    "mqa": sized("mqa"),
    "mqa_of_one_head": sized("mqa", n_head=1),
    "rela": sized("rela"),
    "favor": sized("favor"),
    "favor_features": sized("favor", attention_kwargs={"rf_dim": 5}),
    "rebased": sized("rebased", n_head=2),
}


@pytest.mark.parametrize("name", SIZED)
def test_other_sizes_are_the_formulas(name):
    constructor = SIZED[name]
    arrays = arrays_of(constructor)
    rng = np.random.default_rng(1)
    xs, ys = rng.normal(size=(6, 5)), rng.normal(size=6)
    model = load_model(arrays, constructor)
    found = eqx.filter_jit(model)(xs.astype(np.float32), ys.astype(np.float32))
    wanted = predictions(arrays, constructor, xs, ys)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_is_no_parameter_is_ignored():
    for kind, back in (("gpt2", "_backbone."), ("rela", "_backbone.transformer.")):
        arrays = arrays_of(sized(kind))
        plain = load_model(arrays, sized(kind))
        mask = np.tri(14, dtype=bool)[None, None]
        more = {f"{back}h.2.attn.causal_mask": mask, f"{back}h.0.attn.bias": mask}
        words = {f"{back}wte.weight": np.ones((9, 12), np.float32)}
        full = load_model({**arrays, **more, **words}, sized(kind))
        leaves = zip(jax.tree.leaves(plain), jax.tree.leaves(full), strict=True)
        assert all(np.array_equal(a, b) for a, b in leaves)


@pytest.mark.parametrize("name", ["globals", "gpt2", "rela"])
def test_a_mask_of_other_tokens_is_refused(name):
    constructor = SIZED[name]
    kind, arrays = constructor["attention_type"], arrays_of(constructor)
    back = "_backbone." if kind == "gpt2" else "_backbone.transformer."
    buffer = {"gpt2": "bias", "rela": "causal_mask"}.get(kind, "local_global_mask")
    buffer = f"{back}h.1.attn.{buffer}"
    mask = seen_by(constructor, 14)[None, None]
    plain = load_model(arrays, constructor)
    assert eqx.tree_equal(load_model({**arrays, buffer: mask}, constructor), plain)
    wrong = mask.copy()
    wrong[0, 0, 12, 5] ^= True
    for other in (wrong, mask[..., 1:, 1:], mask[0], np.array(True)):
        with pytest.raises(ValueError, match=f"{re.escape(buffer)} must be .* another"):
            load_model({**arrays, buffer: other}, constructor)


# Wrong settings and arrays

WRONG = {
    "constructor lacks 'n_dims'": lambda c: c.pop("n_dims"),
    "constructor: n_head must divide n_embd=12, got 5": lambda c: c.update(n_head=5),
    "constructor: no family 'lstm'; known: gpt2, nanogpt": lambda c: c.update(
        family="lstm"
    ),
    "constructor: no attention_type 'favour'; did you mean 'favor'?": lambda c: (
        c.update(attention_type="favour")
    ),
    "no attention_kwargs 'rfdim'; did you mean 'rf_dim'?": lambda c: c.update(
        attention_kwargs={"rfdim": 5}
    ),
    "local_window_size must be a positive integer, got 0": lambda c: c.update(
        attention_type="local_global", attention_kwargs={"local_window_size": 0}
    ),
    "h.0.attn.omega must have the shape [4, 9], got [4, 8]": lambda c: c.update(
        attention_kwargs={"rf_dim": 9}
    ),
    "_backbone.transformer.wpe.weight must have the shape [16, 12], got [14, 12]": (
        lambda c: c.update(n_positions=8)
    ),
    "parameters lack _backbone.transformer.h.0.attn.q_proj.weight": lambda c: c.update(
        attention_type="mqa"
    ),
    "the model does not have: _backbone.transformer.h.2.": lambda c: c.update(
        n_layer=2
    ),
    "parameters lack _backbone.wpe.weight": lambda c: c.update(
        family="gpt2", attention_type="softmax_causal"
    ),
    "attention_type must be softmax_causal if family is gpt2, got 'favor'": (
        lambda c: c.update(family="gpt2")
    ),
    "rela has no attention_kwargs 'rf_dim'; known: none": lambda c: c.update(
        attention_type="rela", attention_kwargs={"rf_dim": 5}
    ),
    "constructor: no argument 'n_layers'; did you mean 'n_layer'?": lambda c: c.update(
        n_layers=3
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_refused(message):
    constructor = sized("favor")
    arrays = arrays_of(constructor)
    WRONG[message](constructor)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        load_model(arrays, constructor)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{bad", "[1]"])
def test_a_constructor_that_is_no_mapping_is_refused(text):
    with pytest.raises(ValueError, match="constructor must be a mapping or its JSON"):
        load_model({}, text)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(8, np.int32), "must be of type .*, got int32"),
        (np.ones(8, np.complex64), "must be of type .*, got complex64"),
        (np.full(8, np.nan, np.float32), "must be finite, got 12 of 12 that are not"),
    ],
)
def test_arrays_of_another_type_are_refused(array, message):
    constructor = sized("favor")
    arrays = arrays_of(constructor)
    name = next(x for x in arrays if x.endswith("ln_f.weight"))
    arrays[name] = np.resize(array, arrays[name].shape)
    with pytest.raises(ValueError, match=f"{re.escape(name)} {message}"):
        load_model(arrays, constructor)


# Files of torch.save

# A state.pt of PyTorch 2.13: a model's weight, bias and four more tensors, and Adam.
WRITTEN = zlib.decompress(
    base64.b85decode(
        "c-qZYTW=dh6kgl$B_=o*N|L4!t}PBt9p7_l8i#G`0NbXHThOXfS*`7fy<+Y4*&U~(Qlv;IL6H!meLy@R"
        "9^ipr0B`h(CqOE1NJt=B2_Yd>zynBtU}kpX>~55pkQc^YA8Tj6?|f(W%x4z_Ul+%PLfo#=#|?0@Ual!C"
        "XrdxxIo5nt&GQlNs$;Bs*MN(PeFRX~DoB+KEMp{9lrjcSxvZ%wDq}@!7~xBL1?i}Aj?9F?J5~f=R16T<"
        "b)-~l7`n<>BiUk73oEJ-mUL8VDQZQ+s9|Wjw2};iKN=N-1YwYsauq?qgoN{|CgaQI%`gN-4_On3kmw_^"
        "+-yO&5Wo;#5;(yt_%`7I!6$e&p=YZ`RXm6xQiNWS>;hL(WCQwYBu_0+GkFrwU+WgU7zP-A10E7Q8*s$L"
        "K8#_o2t%w4+|nDU0>ch;5{}kb_7RHq3EoXOCU~fbM@)uCF^m@BF_yh4>lhw4@m6IQv_`dE*b|I01y2&n"
        "Fovg=2w~R-JWT~1H|b7bc%}$ZMpu*7Wf*hN@oc9O**4{~j4}-;%^Jt88c$Kmm`OQ-Azp+8+f1#2An9b("
        "G_}o^Vr&^m6E+Wq3}G7^Gg-12CW|oDT7zk^n=F#*2+OpqV1~_~7HP}D>>8Y5k9Y;?2I(4@6Fi1tl*A)6"
        "dlM^l<p$F2J(gR8`Kah;T|sWbb8EnhJ?3u8b*ZXrt)>BIufe%BI3E?gWJc8?zmO}GE`Ig%M}IPCiHI>^"
        "VIlX^=X89rkh}lemtPOQadH!$XN4oe@xsE~`PH|+kH0y?_|3MJDyS^4!ixgOWXpA<s>>A+wnTcO>hfz$"
        "F<jVU)61HU<Z=xzE{b8=n{tzMja*U@EN+Pra;Ks!FOx&kzzVy2X^Y8QZW*Mr3X9?(U4qJ_Bo$R8hk~Uo"
        ")`hHU1B%z+a+Ewv4{FIRmJ92$(jXg$ns7z%wPFP!82aV-z5Y)~dGspm=>tRD*|rbFNCkBnOV;Db^EsCt"
        "9C#$CkdN<w^Ez!EdhIP_gqz$EVtIfht4g&|Cp(tsQ~yOvHcbWOuEUSCHN5)@=;v~60i{)pH0o%1{`6t?"
        "KvghS5!JA9=I&AY2m||Sh;VZbSDuLH`I$oqFj?1g<YS(^$+b?d_vfjip|^jyIZP&oJ181=DoW(}D0hJT"
        "B=`EKG+*tr$O)Pt)FI!jGhZ^#PjUaF`cnt2pAC-{y;k&DvCE2nD+a6>wBoj)ZYxsVAKcq`r9i)T(4BVb"
        "PUrdff%oxtj=N2B2A8hh?XvXlmvi2kGn40M4`m@9n*7+e{tr9*M=!^>leZ0Q?vMtS3R3}h-mAXU**`|P"
        "<c@){@(rXb#KCUJ^e>X6RPuc6fO-<i>{KQ@nVQZ{XVc`B%q9|v$z(d7NyU@NY<x16N==eLRsQ|g%eSIL"
        "N0h1buvXjFY5y(g+ojz7KhTY~8~Bg|8S3Kp`t@*=*iCrEL2}bhvdj71Ja!}Pckm4Ox!nfthTBhl!~uWD"
        "&$+zUjkP<N6B`Y<u!(=4_gyzO>Bibmyen_eg-yA!_LJ+xe&@!f-B|m<b7HTAT-b~oYd<r+4(uHpc8^}M"
        "xALe1T<qpL9I}EC2#jwZN#Ch9vd0zwu)O&9?rm!gFxUOHXUDP&f<Itldf0k%?LV9-4Tk"
    )
)


def test_a_file_of_pytorch_is_read(tmp_path):
    (tmp_path / "state.pt").write_bytes(WRITTEN)
    found = load_state(tmp_path / "state.pt")
    wanted = {
        "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "bias": np.array([0.5, -1], np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "part": np.arange(3, 7),
        "half": np.array([1.5, -2], jnp.bfloat16),
        "one": np.array(True),
    }
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


class Named:
    """Pickles as a call of a function by its name, which need not exist."""

    def __init__(self, module, name, *arguments):
        self.path, self.arguments = f"{module}\n{name}\n".encode(), arguments


class Raw(bytes):
    """Bytes that are in the pickle as they are."""


def pickled(value):
    """A pickle of dicts, texts, numbers, tuples, calls and storages, in protocol 2."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, Named):
        called = b"".join(map(pickled, value.arguments))
        call = b"(" + called + b"tR" if value.arguments else b""
        return b"c" + value.path + call
    if isinstance(value, dict):
        return b"(" + b"".join(pickled(x) for kv in value.items() for x in kv) + b"d"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(pickled, value)) + b"t"
    if isinstance(value, Storage):
        return pickled(("storage", *value.fields)) + b"Q"
    return pickle.dumps(value, 2)[2:-1]


class Storage:
    def __init__(self, kind, key, count):
        self.fields = Named("torch", kind), key, "cuda:0", count


def tensor(shape, strides, offset=0, kind="FloatStorage", key="0", count=6):
    made = Storage(kind, key, count), offset, shape, strides, False, {}
    return Named("torch._utils", "_rebuild_tensor_v2", *made)


def archive(value, *, root="archive", numbers=6, **members):
    """A file as `torch.save` writes it, of a value and one storage."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr(f"{root}/data.pkl", b"\x80\x02" + pickled(value) + b".")
        out.writestr(f"{root}/data/0", np.arange(numbers, dtype="<f4").tobytes())
        for name, data in members.items():
            out.writestr(f"{root}/{name}", data)
    return file.getvalue()


def test_a_plain_state_dict_is_read(tmp_path):
    path = tmp_path / "model_500.pt"
    part = {"a": tensor((2, 2), (3, 1), 1), "b": tensor((), (), 5)}
    path.write_bytes(archive(part, root="model_500", byteorder=b"little"))
    found = load_state(path)
    assert found.keys() == {"a", "b"}
    wanted = np.array([[1, 2], [4, 5]], np.float32)
    np.testing.assert_array_equal(found["a"], wanted, strict=True)
    np.testing.assert_array_equal(found["b"], np.float32(5))


REFUSED = {
    "asks for builtins.eval": lambda: archive({"a": Named("builtins", "eval", "1")}),
    "asks for torch.nn.Linear": lambda: archive({"a": Named("torch.nn", "Linear")}),
    "has a tensor of shape (2, 4) beyond its 6": lambda: archive(
        {"a": tensor((2, 4), (4, 1))}
    ),
    "has a tensor of shape (1000000, 1000000) beyond": lambda: archive(
        {"a": tensor((10**6, 10**6), (0, 0))}
    ),
    "has a tensor of shape (3,) with strides (-1,)": lambda: archive(
        {"a": tensor((3,), (-1,), 5)}
    ),
    "must have 24 bytes in data/0, got 20": lambda: archive(
        {"a": tensor((2,), (1,))}, numbers=5
    ),
    "has two types for data/0: float32 and int32": lambda: archive(
        {"a": tensor((2,), (1,)), "b": tensor((2,), (1,), kind="IntStorage")}
    ),
    "must have little-endian numbers, got b'big'": lambda: archive(
        {"a": tensor((2,), (1,))}, byteorder=b"big"
    ),
    "must hold tensors by name, got int at 'a'": lambda: archive({"a": 3}),
    "has no data.pkl, so torch.save did not write it": lambda: archive({}, root="a/b"),
    "torch.save writes zip archives since version 1.6": lambda: pickle.dumps({"a": 1}),
    "Bad CRC-32": lambda: WRITTEN.replace(b"collections", b"collectionz", 1),
    "damaged (": lambda: archive(Raw(b"no pickle")),
}


@pytest.mark.parametrize("message", REFUSED)
def test_another_file_is_refused(message, tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(REFUSED[message]())
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        load_state(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_a_call_in_a_file_is_not_made(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "system", calls.append)
    path = tmp_path / "state.pt"
    path.write_bytes(archive({"a": Named("os", "system", "true")}))
    # The file is what an attacker would write.
    with zipfile.ZipFile(path) as file:
        pickle.loads(file.read("archive/data.pkl"))
    assert calls == ["true"]
    with pytest.raises(ValueError, match=r"asks for os.system, which is no tensor"):
        load_state(path)
    assert calls == ["true"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*state.pt: No such file"):
        load_state(tmp_path / "state.pt")
