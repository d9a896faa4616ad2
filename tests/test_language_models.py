"""Language models of six families, beside what transformers computes."""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import opto
from icl.compat.hugging_face import cached, load, save
from icl.config import from_json, to_json
from icl.models import Causal, LinearScaling, Llama3Scaling, Rope, Window
from icl.models.decoder import (
    Decoder,
    DecoderConfig,
    ExactGelu,
    LayerNormConfig,
    PlainMLPConfig,
    RMSNormConfig,
)
from icl.protocols import Input, Interface, ModelConfig
from icl.roles import PADDING


SHARED = pathlib.Path(__file__).parents[2] / "shared/data/language_models"
needs_reference = pytest.mark.skipif(
    not SHARED.exists(), reason="needs the reference data"
)
FAMILIES = ("pythia", "llama", "mistral", "qwen2", "qwen3", "gemma")
each_family = pytest.mark.parametrize("family", FAMILIES)
TOKENS = Interface((Input("ids", (5,), "int32", 11),), 11)


def built(config):
    return config.build(TOKENS, key=jax.random.key(0))


# What transformers computes


@needs_reference
@each_family
def test_it_is_the_reference(family):
    with np.load(SHARED / family / "reference.npz") as data:
        wanted = dict(data)
    model, ids = load(SHARED / family), jnp.asarray(wanted["input_ids"])
    logits, found = opto.run(model, ids, record="**")
    size = np.abs(wanted["logits"]).max()
    np.testing.assert_allclose(logits, wanted["logits"], atol=1e-4 * size)
    for i in range(len(model.blocks)):
        pattern = found[f"blocks.{i}.attn.pattern"]
        np.testing.assert_allclose(pattern, wanted["attentions"][i], atol=1e-5)
        sites = {
            "attn.out": "attn_out",
            "mlp.out": "mlp_out",
            "resid_post": "block_out",
        }
        for site, name in sites.items():
            here = found[f"blocks.{i}.{site}"]
            np.testing.assert_allclose(here, wanted[name][i], atol=1e-4, err_msg=site)
    hidden = wanted["hidden_states"]
    np.testing.assert_allclose(found["embed"], hidden[0], atol=1e-5)
    np.testing.assert_allclose(found["final.normed"], hidden[-1], atol=1e-4)
    rolled = opto.roll_out(model, jnp.asarray(wanted["prompt"]), steps=12)
    np.testing.assert_array_equal(rolled.inputs[0], wanted["greedy"])
    # Padding on the left, and the same on the right.
    real = wanted["padded_mask"] == 1
    padded = jnp.where(real, wanted["padded_ids"], PADDING)
    logits, _ = opto.run(model, padded)
    expected = wanted["padded_logits"][real]
    np.testing.assert_allclose(np.asarray(logits)[real], expected, atol=1e-4 * size)
    for row, kept in zip(padded, real, strict=True):
        right = jnp.concatenate([row[kept], row[~kept]])
        there = model(right)[: kept.sum()]
        np.testing.assert_allclose(there, model(row)[kept], atol=1e-5 * size)


@needs_reference
@each_family
def test_saved_and_loaded_it_is_the_same(family, tmp_path):
    model = load(SHARED / family)
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.config == model.config
    assert eqx.tree_equal(again, model)


@needs_reference
def test_narrow_weights_are_kept_or_widened(tmp_path):
    kept, wide = load(SHARED / "mistral", narrow=True), load(SHARED / "mistral")
    assert {x.dtype.name for x in jax.tree.leaves(kept)} == {"bfloat16"}
    assert {x.dtype.name for x in jax.tree.leaves(wide)} == {"float32"}
    assert all(
        (a.astype(np.float32) == b).all()
        for a, b in zip(*map(jax.tree.leaves, (kept, wide)), strict=True)
    )
    ids = jnp.arange(9)
    near = np.asarray(kept(ids), np.float32), wide(ids)
    np.testing.assert_allclose(*near, atol=0.05 * np.abs(near[1]).max())
    save(kept, tmp_path)
    assert eqx.tree_equal(load(tmp_path, narrow=True), kept)
    halves = {
        k: x.astype(np.float16)
        for k, x in load_file(SHARED / "pythia" / "model.safetensors").items()
    }
    shutil.copytree(SHARED / "pythia", tmp_path / "halves")
    save_file(halves, tmp_path / "halves" / "model.safetensors")
    assert load(tmp_path / "halves").embedding.weight.dtype == np.float32


# A few settings that no reference has, from their formulas


def test_rotary_frequencies():
    """Llama 3.1's scaling, written out; and pairs that are neighbours."""
    base, dim, length, factor, low, high = 500.0, 16, 32, 4.0, 1.0, 4.0
    plain = np.array([base ** (-2 * i / dim) for i in range(dim // 2)])
    expected = []
    for frequency in plain:
        wavelength = 2 * np.pi / frequency
        if wavelength < length / high:
            expected.append(frequency)
        elif wavelength > length / low:
            expected.append(frequency / factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            expected.append((1 - smooth) * frequency / factor + smooth * frequency)
    rope = Rope(base, scaling=Llama3Scaling(factor, low, high, length))
    np.testing.assert_allclose(rope.frequencies(dim), expected, rtol=1e-12)
    assert len({*np.round(np.array(expected) / plain, 6)}) > 2
    linear = Rope(base, scaling=LinearScaling(3.0))
    np.testing.assert_allclose(linear.frequencies(dim), plain / 3, rtol=1e-12)
    x = np.random.default_rng(0).normal(size=(6, 2, 24))
    for pairs in ("neighbours", "halves"):
        rope = Rope(base, share=16 / 24, pairs=pairs)
        turned = rope.build(8, key=jax.random.key(0)).rotate(
            jnp.asarray(x, jnp.float32), 2
        )
        first = np.arange(0, 16, 2) if pairs == "neighbours" else np.arange(8)
        second = first + (1 if pairs == "neighbours" else 8)
        both = x[..., first] + 1j * x[..., second]
        both *= np.exp(1j * (np.arange(6) + 2)[:, None] * plain)[:, None]
        np.testing.assert_allclose(turned[..., first], both.real, atol=1e-5)
        np.testing.assert_allclose(turned[..., second], both.imag, atol=1e-5)
        np.testing.assert_array_equal(turned[..., 16:], np.float32(x[..., 16:]))


def test_logits_are_capped():
    config = DecoderConfig(init_std=1.0)
    model = built(config)
    capped = dataclasses.replace(config, soft_cap=2.0)
    capped = dataclasses.replace(model, config=capped)
    ids = jnp.arange(5)
    np.testing.assert_allclose(capped(ids), 2 * np.tanh(model(ids) / 2), rtol=1e-5)


CONFIGS = {
    "plain": DecoderConfig(),
    "parallel": DecoderConfig(
        norm=LayerNormConfig(),
        mlp=PlainMLPConfig(ExactGelu()),
        residual="parallel",
        positions=Rope(share=0.5, pairs="halves", scaling=LinearScaling(2.0)),
        qkv_bias=True,
        output_bias=True,
        tied=False,
    ),
    "windows": DecoderConfig(
        mask=(Window(3), Causal()), num_kv_heads=2, d_head=6, max_length=20
    ),
    "gemma": DecoderConfig(
        norm=RMSNormConfig(offset=1.0), embedding_scale=8.0, head_norm=RMSNormConfig()
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_read_back_and_edits_work(name):
    config = CONFIGS[name]
    data = json.loads(json.dumps({"type": "DecoderConfig", **to_json(config)}))
    assert from_json(ModelConfig, data) == config
    model = built(config)
    assert isinstance(model, Decoder)
    ids = jnp.array([[1, 2, 3, 1, 2], [4, 5, 4, 5, 4]])
    out, record = opto.run(model, ids, record="**")
    np.testing.assert_allclose(out, jax.vmap(model)(ids), atol=1e-6)
    # A later token has no effect on an earlier one.
    other, _ = opto.run(model, ids.at[:, -1].set(9))
    np.testing.assert_allclose(out[:, :-1], other[:, :-1], atol=1e-6)
    result = record["blocks.0.attn.result"].sum(1)
    bias = model.blocks[0].attn.output.bias
    result = result if bias is None else result + bias
    np.testing.assert_allclose(result, record["blocks.0.attn.out"], atol=1e-6)
    zero, _ = opto.run(model, ids, edits=[opto.Zero("blocks.*.attn.z", head=1)])
    assert np.abs(zero - out).max() > 1e-6
    scale = [site for site in record if site.endswith("q_norm.scale")]
    assert len(scale) == (2 if config.head_norm else 0)


def test_the_old_spelling_of_rotary_settings(tmp_path):
    save(built(CONFIGS["parallel"]), tmp_path)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    model = load(tmp_path)
    params = settings.pop("rope_parameters")
    settings |= {
        "rotary_pct": params["partial_rotary_factor"],
        "rotary_emb_base": params["rope_theta"],
        "rope_scaling": {"type": "linear", "factor": params["factor"]},
        "torch_dtype": "float32",
        "some_new_switch": False,
    }
    path.write_text(json.dumps(settings))
    assert load(tmp_path).config == model.config


# Wrong files


def setting(**changed):
    def damage(folder):
        path = folder / "config.json"
        settings = json.loads(path.read_text()) | changed
        path.write_text(json.dumps(settings))

    return damage


def arrays(change):
    def damage(folder):
        path = folder / "model.safetensors"
        found = load_file(path)
        change(found)
        save_file(found, path)

    return damage


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


WRONG = {
    "only pytorch_model.bin, which may run code": pickled,
    "model_type 'lama' is not supported; did you mean 'llama'?": setting(
        model_type="lama"
    ),
    "the setting attn_logit_softcapping=50.0 of llama": setting(
        attn_logit_softcapping=50.0
    ),
    "rope_type must be default, linear or llama3, got 'yarn'": setting(
        rope_parameters={"rope_type": "yarn", "factor": 2.0}
    ),
    "rope_parameters must have 'factor'": setting(
        rope_parameters={"rope_type": "linear"}
    ),
    "hidden_act must be one of": setting(hidden_act="sillu"),
    "must have the shape [64, 32], got [32, 32]": arrays(
        lambda x: x.update(
            {"model.layers.0.self_attn.q_proj.weight": np.ones((32, 32), np.float32)}
        )
    ),
    "parameters lack model.norm.weight": arrays(lambda x: x.pop("model.norm.weight")),
    "parameters that the model does not have: more": arrays(
        lambda x: x.update(more=np.ones(2, np.float32))
    ),
    "model.norm.weight": arrays(lambda x: x["model.norm.weight"].fill(np.nan)),
    "there must be a setting 'hidden_size'": setting(hidden_size=None),
    "num_kv_heads must divide num_heads=5, got 4": setting(num_attention_heads=5),
    "lm_head.weight must be equal to model.embed_tokens.weight": arrays(
        lambda x: x.update(
            {"lm_head.weight": np.zeros_like(x["model.embed_tokens.weight"])}
        )
    ),
}


@pytest.fixture
def folder(tmp_path):
    save(built(DecoderConfig(d_model=32, num_heads=4, d_head=16)), tmp_path)
    return tmp_path


@pytest.mark.parametrize("message", WRONG)
def test_what_is_refused(message, folder):
    WRONG[message](folder)
    with pytest.raises(ValueError, match=re.escape(message)):
        load(folder)


def test_a_lacking_shard_is_named(folder):
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"cannot read .*model-00001-of-00002"):
        load(folder)


def test_wrong_inputs_and_models(folder):
    model = built(CONFIGS["windows"])
    with pytest.raises(ValueError, match="ids must have at most 20 tokens, got 21"):
        model(jnp.zeros(21, int))
    assert np.isnan(model(jnp.array([0, 99]))[1]).all()
    with pytest.raises(ValueError, match="no family"):
        save(built(dataclasses.replace(CONFIGS["plain"], soft_cap=3.0)), folder)
    with pytest.raises(ValueError, match="an even number of entries"):
        DecoderConfig(d_head=5)


def test_a_model_in_the_cache(tmp_path, monkeypatch, folder):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    model = tmp_path / "hub/models--org--name"
    snapshot = model / "snapshots/abc123"
    snapshot.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to(folder / name)
    (model / "refs").mkdir()
    (model / "refs/step512").write_text("abc123")
    for revision in ("step512", "abc123"):
        assert eqx.tree_equal(load(cached("org/name", revision)), load(folder))
    with pytest.raises(ValueError, match="no revision 'main' in .*; it has step512"):
        cached("org/name")
    with pytest.raises(
        ValueError, match="org/other is not in the cache .*snapshot_down"
    ):
        cached("org/other")


# Memory, and transformers itself


LOADS = """
import resource, sys
import jax.numpy as jnp
from icl.compat.hugging_face import load
load(sys.argv[1])  # A small one first: the modules are in memory.
jnp.zeros(3).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = load(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_loading_takes_little_more_than_the_file(folder, tmp_path_factory):
    big = tmp_path_factory.mktemp("big")
    config = DecoderConfig(num_layers=4, d_model=512, tied=False)
    interface = Interface((Input("ids", (5,), "int32", 30_000),), 30_000)
    save(config.build(interface, key=jax.random.key(0)), big)
    size = (big / "model.safetensors").stat().st_size
    given = [sys.executable, "-c", LOADS, str(folder), str(big)]
    found = subprocess.run(given, capture_output=True, text=True, check=True)
    assert size > 1.5e8
    assert int(found.stdout) * 1024 < 1.2 * size


def settings(transformers):
    """Configs of transformers in which much is not as usual."""
    sizes = dict(
        vocab_size=67,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=80,
        max_position_embeddings=64,
    )
    linear = {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 5000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }
    neox = {"rope_parameters": {**linear, "partial_rotary_factor": 0.5}}
    biases = {"attention_bias": True, "mlp_bias": True, "rope_parameters": llama3}
    window = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    given = [
        ("GPTNeoX", {"use_parallel_residual": False, **neox}),
        ("GPTNeoX", {"attention_bias": False, "hidden_act": "gelu_new"}),
        ("Llama", {"head_dim": 20, "tie_word_embeddings": True, **biases}),
        ("Mistral", {"sliding_window": None, "num_key_value_heads": 1}),
        ("Qwen2", {"num_key_value_heads": 2, **window}),
        ("Qwen3", {"num_key_value_heads": 4, "head_dim": 10, "attention_bias": True}),
        ("Gemma", {"head_dim": 14, "num_key_value_heads": 2}),
        ("GPT2", {"n_inner": 80}),
    ]
    return [
        getattr(transformers, f"{name}Config")(**sizes, **each) for name, each in given
    ]


def test_transformers_computes_the_same(tmp_path):
    """Also after `save`; only where torch and transformers are installed."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    auto = transformers.AutoModelForCausalLM
    ids = np.random.default_rng(0).integers(0, 67, (3, 33))
    real = np.ones((3, 33), int)
    real[1, 25:], real[2, :7] = 0, 0
    positions = torch.tensor(np.maximum(real.cumsum(1) - 1, 0))
    for config in settings(transformers):
        torch.manual_seed(0)
        theirs = auto.from_config(config, attn_implementation="eager").eval()
        for parameter in theirs.parameters():
            parameter.data.add_(0.2 * torch.randn_like(parameter))
        theirs.save_pretrained(tmp_path / "theirs")
        ours = load(tmp_path / "theirs")
        save(ours, tmp_path / "ours")
        again = auto.from_pretrained(tmp_path / "ours", attn_implementation="eager")
        with torch.no_grad():
            given = {"attention_mask": torch.tensor(real), "position_ids": positions}
            whole = theirs(torch.tensor(ids)).logits.numpy()
            padded = theirs(torch.tensor(ids), **given).logits.numpy()
            saved = again(torch.tensor(ids)).logits.numpy()
        tolerance = {"atol": 1e-5 * np.abs(whole).max(), "err_msg": str(config)}
        np.testing.assert_allclose(saved, whole, **tolerance)
        np.testing.assert_allclose(opto.run(ours, ids)[0], whole, **tolerance)
        found, _ = opto.run(ours, jnp.where(real == 1, ids, PADDING))
        kept = real == 1
        np.testing.assert_allclose(np.asarray(found)[kept], padded[kept], **tolerance)
