"""GPT-2: against Hugging Face and NumPy, as files, and under opto."""

import functools
import json
import pathlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import oracles
import pytest
from safetensors.numpy import load_file, save_file

import opto
from icl import measures
from icl.compat.gpt2 import load, save
from icl.config import from_json, to_json
from icl.measures import lacking
from icl.models import (
    ContextOnly,
    Everything,
    fold_layer_norms,
    LinearAttention,
    SoftmaxAttention,
)
from icl.models.gpt2 import ExactGelu, GPT2Config, Relu
from icl.presets import presets
from icl.protocols import Input, Interface, ModelConfig
from icl.roles import PADDING


REFERENCE = pathlib.Path(__file__).parents[2] / "shared/data/gpt2_tiny"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="needs the reference data"
)
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
TOKENS = Interface((Input("ids", (5,), "int32", 7),), 7)
POINTS = Interface((Input("xs", (4, 3), "float32"), Input("ys", (4,), "float32")), 1)
TINY = {"num_layers": 2, "d_model": 8, "num_heads": 2, "max_length": 10}


# What Hugging Face computes


@needs_reference
def test_it_is_the_reference():
    with np.load(REFERENCE / "reference.npz") as data:
        wanted = dict(data)
    model, ids = load(REFERENCE), jnp.asarray(wanted["input_ids"])
    logits, found = opto.run(model, ids, record="**")
    same = functools.partial(np.testing.assert_allclose, **TOLERANCE)
    same(logits, wanted["logits"])
    same(jax.vmap(model)(ids), wanted["logits"])
    sites = "embed", "blocks.0.resid_post", "final.normed"
    for site, hidden in zip(sites, wanted["hidden_states"], strict=True):
        same(found[site], hidden, err_msg=site)
    same(found["blocks.1.resid_post"], wanted["last_block_out"])
    same(found["final.in"], wanted["last_block_out"])
    for theirs, ours in {
        "attentions": "attn.pattern",
        "attn_out": "attn.out",
        "mlp_out": "mlp.out",
    }.items():
        for layer in range(2):
            same(found[f"blocks.{layer}.{ours}"], wanted[theirs][layer], err_msg=ours)
    log = jax.nn.log_softmax(logits)[:, :-1]
    chosen = jnp.take_along_axis(log, ids[:, 1:, None], -1)
    same(-chosen.mean(), wanted["loss"])


@needs_reference
def test_a_round_trip_keeps_the_bits_of_the_reference(tmp_path):
    save(load(REFERENCE), tmp_path)
    before, after = (load_file(x / "model.safetensors") for x in (REFERENCE, tmp_path))
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, strict=True)
    given, written = (
        json.loads((x / "config.json").read_text()) for x in (REFERENCE, tmp_path)
    )
    names = "architectures", "n_embd", "n_head", "n_layer", "n_positions", "dtype"
    names += "vocab_size", "activation_function", "layer_norm_epsilon", "model_type"
    assert {n: given[n] for n in names} == {n: written[n] for n in names}


# Folders that the tests write


def settings_of(**changes):
    return {
        "model_type": "gpt2",
        "vocab_size": 11,
        "n_positions": 9,
        "n_embd": 12,
        "n_layer": 2,
        "n_head": 3,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
        **changes,
    }


def arrays_of(settings, seed=0):
    """Random arrays with the names and shapes of Hugging Face, without prefix."""
    rng = np.random.default_rng(seed)
    width = settings["n_embd"]
    hidden = settings["n_inner"] or 4 * width
    shapes = {
        "wte.weight": (settings["vocab_size"], width),
        "wpe.weight": (settings["n_positions"], width),
    }
    for i in range(settings["n_layer"]):
        for name, size in {
            "attn.c_attn": (width, 3 * width),
            "attn.c_proj": (width, width),
            "mlp.c_fc": (width, hidden),
            "mlp.c_proj": (hidden, width),
        }.items():
            shapes |= {f"h.{i}.{name}.weight": size, f"h.{i}.{name}.bias": size[1:]}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{name}.{part}": (width,) for part in ("weight", "bias")}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    if not settings["tie_word_embeddings"]:
        shapes["lm_head.weight"] = settings["vocab_size"], width
    draw = lambda shape: (0.4 * rng.normal(size=shape)).astype(np.float32)
    return {name: draw(shape) for name, shape in shapes.items()}


def write(folder, settings, arrays):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    return folder


def with_masks(arrays):
    mask = np.tri(9, dtype=np.uint8)[None, None]
    stored = {f"h.{i}.attn.bias": mask for i in range(2)}
    return {**arrays, **stored, "h.0.attn.masked_bias": np.array(-1e4, np.float32)}


def prefixed(arrays):
    name = lambda x: x if x == "lm_head.weight" else f"transformer.{x}"
    return {name(x): array for x, array in arrays.items()}


SETTINGS = {
    "plain": {},
    "one_head": {"n_head": 1, "n_layer": 3},
    "narrow": {"n_inner": 5, "activation_function": "gelu"},
    "relu": {"activation_function": "relu", "layer_norm_epsilon": 0},
    "unscaled": {"scale_attn_weights": False},
    "by_layer": {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3},
    "by_layer_only": {
        "scale_attn_by_inverse_layer_idx": True,
        "scale_attn_weights": False,
    },
    "untied": {"tie_word_embeddings": False},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_mean_what_they_say(name, tmp_path):
    settings = settings_of(**SETTINGS[name])
    arrays = arrays_of(settings)
    model = load(write(tmp_path / "given", settings, prefixed(arrays)))
    ids = np.random.default_rng(1).integers(11, size=9).astype(np.int32)
    wanted = oracles.gpt2(arrays, settings, ids)
    np.testing.assert_allclose(model(jnp.asarray(ids)), wanted, **TOLERANCE)
    # A short sequence is the beginning of a long one.
    np.testing.assert_allclose(model(jnp.asarray(ids[:3])), wanted[:3], **TOLERANCE)
    save(model, tmp_path / "written")
    again = load_file(tmp_path / "written/model.safetensors")
    assert again.keys() == prefixed(arrays).keys()
    for name, array in prefixed(arrays).items():
        np.testing.assert_array_equal(again[name], array, strict=True)
    assert eqx.tree_equal(load(tmp_path / "written"), model)


OTHER_NAMES = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
}


@pytest.mark.parametrize("both", [False, True])
def test_settings_may_have_the_other_names_of_hugging_face(both, tmp_path):
    settings = settings_of()
    renamed = {OTHER_NAMES.get(name, name): x for name, x in settings.items()}
    given = {**settings, **renamed} if both else renamed
    arrays = arrays_of(settings)
    model = load(write(tmp_path, given, prefixed(arrays)))
    ids = np.arange(9, dtype=np.int32)
    wanted = oracles.gpt2(arrays, settings, ids)
    np.testing.assert_allclose(model(jnp.asarray(ids)), wanted, **TOLERANCE)


def sharded(folder, settings, arrays):
    """Three files with an index, as large models are stored."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    where = {
        name: f"model-{i % 3 + 1}-of-3.safetensors" for i, name in enumerate(arrays)
    }
    for file in set(where.values()):
        part = {name: arrays[name] for name in arrays if where[name] == file}
        save_file(part, folder / file)
    index = {"metadata": {"total_size": 1}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def halved(kind):
    return lambda arrays: {name: x.astype(kind) for name, x in arrays.items()}


STORED = {
    "prefix": prefixed,
    "masks": with_masks,
    "masks_with_prefix": lambda arrays: prefixed(with_masks(arrays)),
    "larger_masks": lambda arrays: {
        **arrays,
        "h.1.attn.bias": np.tri(12, dtype=np.float32)[None, None],
    },
    "tied_head": lambda arrays: {**arrays, "lm_head.weight": arrays["wte.weight"]},
}


@pytest.mark.parametrize("name", STORED)
def test_older_and_newer_files_give_the_same_model(name, tmp_path):
    settings = settings_of()
    arrays = arrays_of(settings)
    plain = load(write(tmp_path / "plain", settings, arrays))
    changed = STORED[name](arrays)
    assert eqx.tree_equal(load(write(tmp_path / name, settings, changed)), plain)
    shards = sharded(tmp_path / "shards", settings, changed)
    assert eqx.tree_equal(load(shards), plain)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_16_bits_become_float32(kind, tmp_path):
    settings = settings_of()
    arrays = halved(kind)(arrays_of(settings))
    model = load(write(tmp_path, settings, arrays))
    table = np.asarray(model.embedding.weight)
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, arrays["wte.weight"].astype(np.float32))
    ids = jnp.arange(9)
    np.testing.assert_allclose(
        model(ids), oracles.gpt2(arrays, settings, np.arange(9)), **TOLERANCE
    )


def test_a_config_may_leave_out_what_is_usual(tmp_path):
    settings = settings_of()
    arrays = arrays_of(settings)
    whole = load(write(tmp_path / "whole", settings, arrays))
    sizes = {x: settings[x] for x in settings if x in ("vocab_size", "n_positions")}
    sizes |= {x: settings[x] for x in ("n_embd", "n_layer", "n_head")}
    assert eqx.tree_equal(load(write(tmp_path / "short", sizes, arrays)), whole)


# Wrong files


def without(name):
    return lambda arrays: {x: a for x, a in arrays.items() if x != name}


def instead(name, make):
    return lambda arrays: {**arrays, name: make(arrays.get(name))}


WRONG_SETTINGS = {
    "no setting 'n_heads'; did you mean 'n_head'?": {"n_heads": 3},
    "no setting 'layer_norm_eps'; did you mean 'layer_norm_epsilon'?": {
        "layer_norm_eps": 1e-3
    },
    "num_attention_heads must be n_head=3, got 4": {"num_attention_heads": 4},
    "activation_function must be gelu_new, gelu, relu; got 'silu'": {
        "activation_function": "silu"
    },
    "model_type must be 'gpt2' or absent, got 'llama'": {"model_type": "llama"},
    "hidden_act must be 'gelu_new' by activation_function, got 'relu'": {
        "hidden_act": "relu"
    },
    "head_dim must be 4 by n_head, got 6": {"head_dim": 6},
    "intermediate_size must be 48 by n_inner, got 7": {"intermediate_size": 7},
    "num_key_value_heads must be 3 by n_head": {"num_key_value_heads": 1},
    "n_ctx must be at least n_positions=9, got 8": {"n_ctx": 8},
    "architectures must be of GPT2 or absent, got ['LlamaForCausalLM']": {
        "architectures": ["LlamaForCausalLM"]
    },
    "pruned_heads must be {} or absent, got {'0': [1]}": {"pruned_heads": {"0": [1]}},
    "add_cross_attention must be False or absent, got True": {
        "add_cross_attention": True
    },
    "n_head must divide n_embd=12, got 5": {"n_head": 5},
    "scale_attn_weights must be of type bool, got 'no'": {"scale_attn_weights": "no"},
    "parameters lack h.2.ln_1.weight, h.2.ln_1.bias": {"n_layer": 3},
    "the model does not have: h.1.": {"n_layer": 1},
    "wpe.weight must have the shape [8, 12], got [9, 12]": {"n_positions": 8},
    "h.0.mlp.c_fc.weight must have the shape [12, 7], got [12, 48]": {"n_inner": 7},
    "parameters lack lm_head.weight": {"tie_word_embeddings": False},
}
MASK = np.tri(9, dtype=np.uint8)[None, None]
WRONG_ARRAYS = {
    "h.1.attn.bias must be Causal() of [1, 1, 9, 9], got another mask of [1, 1, 9": (
        instead("h.1.attn.bias", lambda _: np.ones_like(MASK))
    ),
    "Causal() of [1, 1, 9, 9], got another mask of [1, 1, 8, 8]": (
        instead("h.0.attn.bias", lambda _: np.ascontiguousarray(MASK[..., 1:, 1:]))
    ),
    "h.0.attn.masked_bias must be -10000 or so, got -1.0": instead(
        "h.0.attn.masked_bias", lambda _: np.array(-1, np.float32)
    ),
    "the model does not have: h.2.attn.bias": instead("h.2.attn.bias", lambda _: MASK),
    "parameters lack h.1.attn.c_attn.bias": without("h.1.attn.c_attn.bias"),
    "the model does not have: score.weight": instead(
        "score.weight", lambda _: np.ones(3, np.float32)
    ),
    "h.0.attn.c_attn.weight must have the shape [12, 36], got [36, 12]": instead(
        "h.0.attn.c_attn.weight", lambda x: np.ascontiguousarray(x.T)
    ),
    "ln_f.bias must be finite, got 12 of 12": instead(
        "ln_f.bias", lambda x: x * np.nan
    ),
    "ln_f.bias must be of type float16": instead("ln_f.bias", lambda x: x.astype(int)),
    "wte.weight is there with and without 'transformer.'": instead(
        "transformer.wte.weight", lambda _: np.ones(3, np.float32)
    ),
    "lm_head.weight must be equal to wte.weight": instead(
        "lm_head.weight", lambda _: np.ones((11, 12), np.float32)
    ),
}


@pytest.mark.parametrize("message", WRONG_SETTINGS)
def test_a_wrong_config_is_refused(message, tmp_path):
    folder = write(tmp_path, settings_of(), arrays_of(settings_of()))
    wrong = settings_of(**WRONG_SETTINGS[message])
    (folder / "config.json").write_text(json.dumps(wrong))
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        load(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("message", WRONG_ARRAYS)
def test_wrong_arrays_are_refused(message, tmp_path):
    arrays = WRONG_ARRAYS[message](arrays_of(settings_of()))
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        load(write(tmp_path, settings_of(), arrays))
    assert "\n" not in str(error.value)


def test_a_setting_that_stands_twice_is_refused(tmp_path):
    folder = write(tmp_path, settings_of(), arrays_of(settings_of()))
    text = json.dumps(settings_of())
    (folder / "config.json").write_text(f'{text[:-1]}, "n_head": 1}}')
    with pytest.raises(ValueError, match="config.json.*'n_head' stands there twice"):
        load(folder)


def test_a_folder_of_two_models_is_refused_and_saving_replaces_both(tmp_path):
    settings = settings_of()
    first, second = (arrays_of(settings, seed) for seed in (1, 2))
    folder = write(sharded(tmp_path / "a", settings, first), settings, second)
    with pytest.raises(ValueError, match="has both model.safetensors and .*index.json"):
        load(folder)
    model = load(write(tmp_path / "b", settings, second))
    # What Hugging Face leaves behind: an index without its files.
    index = "model.safetensors.index.json"
    (tmp_path / "b" / index).write_text((folder / index).read_text())
    assert eqx.tree_equal(load(tmp_path / "b"), model)
    save(model, folder)
    assert eqx.tree_equal(load(folder), model)


def test_wrong_folders_are_refused(tmp_path):
    settings = settings_of()
    folder = sharded(tmp_path / "a", settings, arrays_of(settings))
    with pytest.raises(ValueError, match=r"cannot read .*config.json: No such file"):
        load(tmp_path)
    (folder / "model-1-of-3.safetensors").unlink()
    with pytest.raises(ValueError, match=r"cannot read .*model-1-of-3.safetensors"):
        load(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"wte.weight": "../elsewhere.safetensors"}}')
    with pytest.raises(ValueError, match="weight_map, from the name of an array"):
        load(folder)
    index.write_text('{"weight_map": {"ln_f": "model-2-of-3.safetensors"}}')
    with pytest.raises(ValueError, match=r"index.json differ in "):
        load(folder)
    index.unlink()
    with pytest.raises(ValueError, match=r"has neither model.safetensors nor"):
        load(folder)
    (folder / "model.safetensors").write_bytes(b"no such format")
    with pytest.raises(ValueError, match=r"cannot read .*model.safetensors"):
        load(folder)
    with pytest.raises(ValueError, match="cannot make the folder .*File exists"):
        save(built(TOKENS), folder / "config.json")
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config.json must be a JSON object"):
        load(folder)


# The models


def built(interface, **fields):
    return GPT2Config(**TINY | fields).build(interface, key=jax.random.key(0))


UNSAVED = {
    "attention must be SoftmaxAttention, got LinearAttention": lambda: built(
        TOKENS, attention=(SoftmaxAttention(), LinearAttention())
    ),
    "as many key and value heads as heads (2), got 1": lambda: built(
        TOKENS, num_kv_heads=1
    ),
    "the scales of scores must be those of a GPT-2, got 0.3, 0.3": lambda: built(
        TOKENS, scale=0.3
    ),
    "the unembedding must have no bias": lambda: fold_layer_norms(built(TOKENS)),
    "save needs GPT2Tokens, got GPT2Points": lambda: built(POINTS),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", UNSAVED)
def test_models_that_are_no_gpt2_are_not_written(message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        save(UNSAVED[message](), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_fresh_model_has_the_published_initialisation():
    model = GPT2Config(6, 128, 4).build(POINTS, key=jax.random.key(0))
    block = model.blocks[3]
    small = 0.02 / np.sqrt(12)
    reading = block.attn.query, block.attn.value, block.mlp.expand
    for layer in (*reading, block.attn.output, block.mlp.contract):
        std = 0.02 if any(layer is x for x in reading) else small
        assert abs(float(layer.weight.std()) / std - 1) < 0.03
        assert not layer.bias.any()
    assert abs(float(model.positions.table.std()) / 0.02 - 1) < 0.03
    assert (block.attn_norm.weight == 1).all()
    # PyTorch's linear layers: uniform in one over the root of the inputs.
    assert 0.9 / np.sqrt(3) < float(jnp.abs(model.read_in.weight).max()) <= 3**-0.5
    assert 0.9 / np.sqrt(128) < float(jnp.abs(model.unembed.weight).max()) <= 128**-0.5
    weights = [x for x in jax.tree.leaves(block) if x.ndim == 2]
    assert len({float(x.ravel()[0]) for x in weights}) == len(weights) == 6


@pytest.mark.parametrize(
    ("name", "layers", "width", "heads", "millions"),
    # Millions of weights as in Garg et al. (2022), without the unused words.
    [
        ("function_linear_three_layers", 3, 64, 2, 0.2),
        ("function_linear_six_layers", 6, 128, 4, 1.2),
        ("function_linear_published", 12, 256, 8, 9.5),
        ("function_linear_limits_of_icl", 12, 256, 8, 9.5),
    ],
)
def test_the_published_sizes(name, layers, width, heads, millions):
    experiment = presets()[name]()
    model = eqx.filter_eval_shape(
        experiment.model.build, experiment.task.interface, key=jax.random.key(0)
    )
    assert [block.attn.num_heads for block in model.blocks] == [heads] * layers
    sizes = [x.size for x in jax.tree.leaves(model)]
    # Four square layers of attention and an MLP of four times the width, with biases;
    # two norms. Then points and positions in, a norm, and one number out.
    block = 4 * width**2 + 4 * width + 8 * width**2 + 5 * width + 4 * width
    exact = isinstance(experiment.model.activation, ExactGelu)
    assert exact == ("limits" in name)
    positions = 2 * 41 if exact else 2 * 101
    outside = (20 + 1) * width + positions * width + 2 * width + width + 1
    assert sum(sizes) == layers * block + outside
    assert round(sum(sizes) / 1e6, 1) == millions
    # limits_of_icl counts without positions.
    assert not exact or sum(sizes) - 82 * width == 9_483_265


def test_a_config_is_found_and_comes_back():
    config = GPT2Config(
        attention=(SoftmaxAttention(), LinearAttention()),
        num_layers=2,
        scale=(0.5, None),
    )
    data = {"type": "GPT2Config", **to_json(config)}
    assert from_json(ModelConfig, json.loads(json.dumps(data))) == config
    assert from_json(ModelConfig, {"type": "GPT2Config"}) == GPT2Config()


@pytest.mark.parametrize("interface", [TOKENS, POINTS])
def test_folded_norms_compute_the_same(interface):
    model = built(interface, activation=Relu(), layer_norm_epsilon=0.01)
    keys = iter(jax.random.split(jax.random.key(1), 100))
    moved = lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape)
    model = jax.tree.map(lambda x: moved(x) if eqx.is_inexact_array(x) else x, model)
    folded = fold_layer_norms(model)
    assert (folded.final_norm.weight == 1).all()
    inputs = (jnp.array([3, 0, 6, 6, 1]),)
    if interface is POINTS:
        inputs = jax.random.normal(next(keys), (4, 3)), jnp.arange(4.0)
    np.testing.assert_allclose(folded(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)


def test_padding_changes_no_other_token():
    model, ids = built(TOKENS), jnp.array([3, 0, 6])
    wanted, none = model(ids), PADDING
    for padded in ([none, none, 3, 0, 6], [3, 0, 6, none, none], [3, none, 0, none, 6]):
        padded = jnp.array(padded)
        np.testing.assert_allclose(model(padded)[padded != none], wanted, atol=1e-6)


def test_terms_sum_to_the_logits_and_the_lens_ends_there():
    model, ids = built(TOKENS, activation=ExactGelu()), jnp.array([3, 0, 6, 6, 1])
    logits = model(ids)
    terms, names = opto.lens.logit_terms(model, ids)
    assert names == (
        *("embed", "0:0", "0:1", "mlp 0", "1:0", "1:1", "mlp 1", "rest", "bias"),
    )
    np.testing.assert_allclose(terms.sum(0), logits, atol=1e-5)
    lens, _ = opto.lens.logit_lens(model, ids)
    np.testing.assert_allclose(lens[-1], logits, atol=1e-6)


@pytest.mark.parametrize("interface", [TOKENS, POINTS])
def test_measures_of_weights_apply_or_refuse(interface):
    model, kind = built(interface), {TOKENS: "GPT2Tokens"}.get(interface, "GPT2Points")
    sites = opto.sites(model, *interface.structs)
    for measure in (measures.ov_copying(), measures.qk_matching()):
        why = lacking(measure, sites, model)
        assert re.fullmatch(f"it needs 'embedding.label', which {kind} .*", why)
    assert lacking(measures.composition(), sites, model) == ""
    composed = measures.composition("keys").fn(model, None, None, ())
    assert composed.shape == (2, 2)
    assert (composed > 0).all()


def test_tokens_of_points_are_interleaved():
    model = built(POINTS)
    xs, ys = jnp.arange(12.0).reshape(4, 3), jnp.array([7.0, 8, 9, 10])
    prediction, record = opto.run(model, xs, ys, record=["tok_embed", "logits"])
    tokens = np.zeros((8, 3))
    tokens[::2], tokens[1::2, 0] = xs, ys
    layer = model.read_in
    wanted = tokens @ np.asarray(layer.weight).T + np.asarray(layer.bias)
    np.testing.assert_allclose(record["tok_embed"], wanted, atol=1e-5)
    np.testing.assert_array_equal(prediction, record["logits"][::2, 0])
    other = model(xs, ys.at[-1].set(-5))
    np.testing.assert_array_equal(other, model(xs, ys))  # The last value is not read.


def test_a_value_reaches_only_later_predictions():
    model = built(POINTS)
    xs, ys = jax.random.normal(jax.random.key(1), (4, 3)), jnp.array([0.7, -1, 2, 0.1])
    jacobian = np.asarray(jax.jacobian(lambda ys: model(xs, ys))(ys))
    assert (jacobian[np.triu_indices(4)] == 0).all()
    assert (jacobian[np.tril_indices(4, -1)] != 0).all()


WRONG = {
    "num_heads must divide d_model=8, got 3": lambda: built(TOKENS, num_heads=3),
    "num_kv_heads must divide num_heads=2, got 4": lambda: built(
        TOKENS, num_kv_heads=4
    ),
    "layer_norm_epsilon must be at least 0": lambda: built(
        TOKENS, layer_norm_epsilon=-1.0
    ),
    "init_std must be positive and finite": lambda: built(TOKENS, init_std=0.0),
    "scale must be a finite number": lambda: built(TOKENS, scale=float("inf")),
    "attention must be one": lambda: built(TOKENS, attention=(SoftmaxAttention(),) * 3),
    "mask must not show later tokens, got Everything()": lambda: built(
        TOKENS, mask=Everything()
    ),
    "mask must not show later tokens, got ContextOnly": lambda: built(
        POINTS, mask=ContextOnly()
    ),
    "max_length must be at least 8 for this task, got 7": lambda: built(
        POINTS, max_length=7
    ),
    "tied must be True for points": lambda: built(POINTS, tied=False),
    "ids with a logit for each, or points": lambda: built(Interface(POINTS.inputs, 2)),
    "positions end at 10 tokens, got 11": lambda: built(TOKENS)(jnp.zeros(11, int)),
    "xs must have 3 components, got 2": lambda: built(POINTS)(
        jnp.ones((4, 2)), jnp.ones(4)
    ),
    "ys must be an array [point=4], got shape [3]": lambda: built(POINTS)(
        jnp.ones((4, 3)), jnp.ones(3)
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_and_inputs_are_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        WRONG[message]()


def test_ids_that_do_not_exist_give_nan():
    logits = built(TOKENS)(jnp.array([1, 7, 2]))
    assert np.isnan(logits[1:]).all()
