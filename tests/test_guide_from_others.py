"""The guide's table for users of other libraries: its code, against plain NumPy."""

import ast
import re
import sys
import types

import numpy as np
import oracles
import pytest
from test_docs import blocks, GUIDES


TITLE = "## Coming from TransformerLens, nnsight or pyvene"
# What the table takes from the blocks above it.
TAKEN = {"Block", "Transformer", "model", "ids", "other", "difference", "task", "ends"}
# By a part of a row's first column, what its code gives; filled in below.
EXPECTED = {}


def rows():
    """The first column of each row, and the code of its second."""
    section = GUIDES["opto"].split(TITLE)[1].split("\n## ")[0]
    table = [line for line in section.split("\n") if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    found = [(cell[0], re.findall("`([^`]+)`", cell[1])) for cell in cells[1:]]
    return [(there, "\n".join(code)) for there, code in found if code]


@pytest.fixture(scope="module")
def taken():
    """The names that the table takes from the guide."""
    module = types.ModuleType("guide_above")
    sys.modules["guide_above"] = module  # Dataclasses look their module up.
    for block in blocks(GUIDES["opto"].split(TITLE)[0], "python"):
        for node in ast.parse(block.body).body:
            if isinstance(node, ast.Import) or names_of(node) & TAKEN:
                exec(ast.unparse(node), vars(module))
    yield vars(module)
    del sys.modules["guide_above"]


@pytest.fixture(scope="module")
def given(taken):
    """The value of the last statement of each row; the rows run in order."""
    known, results = dict(taken), {}
    for there, code in rows():
        *first, last = ast.parse(code).body
        exec("\n".join(map(ast.unparse, first)), known)
        assert isinstance(last, ast.Expr | ast.Assign)
        expression = ast.unparse(last.value)
        known["_"] = results[there] = eval(expression, known)
        if isinstance(last, ast.Assign):
            exec(f"{ast.unparse(last.targets[0])} = _", known)
    return results


def names_of(node):
    """The names that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {x.id for t in targets for x in ast.walk(t) if isinstance(x, ast.Name)}


def plain(model, ids, change=None):
    """The values at all sites of the guide's transformer, in NumPy and float64.

    `change` has, by site, a function that gives another value there.
    """
    values = {}
    f = lambda x: np.array(x, np.float64)

    def site(name, x):
        values[name] = (change or {}).get(name, lambda x: x)(x)
        return values[name]

    x = site("embed", f(model.embed.weight)[np.asarray(ids)])
    for i, block in enumerate(model.blocks):
        x = site(f"blocks.{i}.resid_pre", x)
        at, w = f"blocks.{i}.attn.", block.heads
        site(at + "in", x)
        parts = {"q": w.query, "k": w.key, "v": w.value}
        q, k, v = (
            site(at + n, np.einsum("hdm,bsm->bhsd", f(m), x)) for n, m in parts.items()
        )
        seen = np.tri(x.shape[1], dtype=bool)
        scores = np.where(seen, np.einsum("bhsd,bhtd->bhst", q, k) / 2, -1e20)
        pattern = site(at + "pattern", oracles.softmax(site(at + "scores", scores)))
        z = site(at + "z", np.einsum("bhst,bhtd->bhsd", pattern, v))
        result = site(at + "result", np.einsum("hmd,bhsd->bhsm", f(w.output), z))
        x = site(f"blocks.{i}.resid_mid", x + site(at + "out", result.sum(1)))
        at = f"blocks.{i}.mlp."
        hidden = site(at + "in", x) @ f(block.expand.weight).T + f(block.expand.bias)
        hidden = site(at + "post", np.maximum(hidden, 0))
        out = hidden @ f(block.contract.weight).T + f(block.contract.bias)
        x = site(f"blocks.{i}.resid_post", x + site(at + "out", out))
    site("logits", read_out(model, site("final.in", x)))
    return values


def read_out(model, stream):
    """The logits of a stream that enters the final norm."""
    f = lambda x: np.array(x, np.float64)
    normed = oracles.layer_norm(stream, f(model.norm.weight), f(model.norm.bias))
    return normed @ f(model.unembed.weight).T + f(model.unembed.bias)


def setting(*index):
    """Changes the entries at an index to a value."""

    def make(value):
        def change(x):
            x = x.copy()
            x[index] = value(x) if callable(value) else value
            return x

        return change

    return make


ALL = slice(None)


def expected(there):
    """Registers what a row gives, a function of the model and two batches of tokens."""

    def register(function):
        EXPECTED[there] = function
        return function

    return register


@expected("run_with_cache(tokens)`")
def _everything(model, ids, other):
    values = plain(model, ids)
    return values["logits"], values


@expected("names_filter")
def _filtered(model, ids, other):
    values = plain(model, ids)
    return values["logits"], {n: x for n, x in values.items() if n.endswith(".z")}


@expected('cache["pattern", 1]')
def _pattern(model, ids, other):
    return plain(model, ids)["blocks.1.attn.pattern"]


@expected("`cache.stack_head_results()`")
def _results(model, ids, other):
    values = plain(model, ids)
    return np.stack([values[f"blocks.{i}.attn.result"] for i in (0, 1)])


def streams(model, ids):
    values = plain(model, ids)
    return [values[n] for n in ("embed", "blocks.0.resid_post", "blocks.1.resid_post")]


@expected("accumulated_resid()")
def _accumulated(model, ids, other):
    return np.stack(streams(model, ids))


@expected("accumulated_resid(apply_ln=True)")
def _lens(model, ids, other):
    return np.stack([read_out(model, stream) for stream in streams(model, ids)])


@expected("decompose_resid")
def _decomposed(model, ids, other):
    values = plain(model, ids)
    outs = [f"blocks.{i}.{part}.out" for i in (0, 1) for part in ("attn", "mlp")]
    assert np.allclose(sum(values[n] for n in ["embed", *outs]), values["final.in"])
    return {n: values[n] for n in ["embed", *outs]}


@expected("logit_attrs")
def _attributed(model, ids, other):
    values = plain(model, ids)
    parts = [values["embed"]]
    for i in (0, 1):
        parts += [values[f"blocks.{i}.attn.result"][:, head] for head in (0, 1)]
        parts += [values[f"blocks.{i}.mlp.out"]]
    unembed = np.array(model.unembed.weight, np.float64)
    direction = unembed[1] - unembed[2]
    sigma = np.sqrt(values["final.in"].var(-1) + 1e-5)
    scaled = np.array(model.norm.weight, np.float64) * direction
    terms = [(x - x.mean(-1, keepdims=True)) @ scaled / sigma for x in parts]
    bias = direction @ np.asarray(model.norm.bias)
    bias = bias + float(model.unembed.bias[1] - model.unembed.bias[2])
    terms += [np.zeros_like(terms[0]), np.full_like(terms[0], bias)]
    whole = values["logits"][..., 1] - values["logits"][..., 2]
    assert np.allclose(sum(terms), whole)
    return np.stack(terms)


@expected("zero ablation")
def _zeroed(model, ids, other):
    return edited(model, ids, "blocks.1.attn.z", setting(ALL, 0)(0))


@expected("mean ablation")
def _averaged(model, ids, other):
    mean = plain(model, ids)["blocks.1.attn.z"][:, 0].mean(0)
    return edited(model, ids, "blocks.1.attn.z", setting(ALL, 0)(mean))


@expected("add_hook")
def _doubled(model, ids, other):
    change = setting(ALL, 0)(lambda z: 2 * z[:, 0])
    return edited(model, ids, "blocks.1.attn.z", change)


@expected("get_act_patch_resid_pre")
def _patched_streams(model, ids, other):
    return patched(model, ids, other, "blocks.{}.resid_pre", ids.shape[1])


@expected("get_act_patch_attn_head_out_all_pos")
def _patched_heads(model, ids, other):
    return patched(model, ids, other, "blocks.{}.attn.z", 2)


@expected("with model.trace(tokens): out =")
def _saved(model, ids, other):
    return plain(model, ids)["blocks.1.mlp.out"]


@expected("mlp.output[:, -1] =")
def _clamped(model, ids, other):
    return edited(model, ids, "blocks.1.mlp.out", setting(ALL, -1)(1.0))


@expected("VanillaIntervention")
def _interchanged(model, ids, other):
    source = plain(model, other)["blocks.0.resid_post"][:, 3]
    return edited(model, ids, "blocks.0.resid_post", setting(ALL, 3)(source))


@expected("CollectIntervention")
def _collected(model, ids, other):
    return plain(model, ids)["blocks.0.resid_post"][:, 3]


def edited(model, ids, site, change):
    """What a run gives under a change of one site: other logits, and no record."""
    logits = plain(model, ids, {site: change})["logits"]
    assert not np.allclose(logits, plain(model, ids)["logits"], atol=1e-3)
    return logits, {}


def patched(model, ids, other, site, size):
    """The metric of the guide with each index of a layer's second axis patched."""
    source = plain(model, other)
    metric = np.zeros((2, size))
    for layer in (0, 1):
        name = site.format(layer)
        for k in range(size):
            change = {name: setting(ALL, k)(source[name][:, k])}
            last = plain(model, ids, change)["logits"][:, -1]
            metric[layer, k] = (last[:, 1] - last[:, 2]).mean()
    return metric


def agree(got, wanted):
    """Compares arrays, tuples of results, and mappings in their order."""
    if isinstance(wanted, tuple):
        return len(got) == len(wanted) and all(map(agree, got, wanted))
    if isinstance(wanted, dict):
        return list(got) == list(wanted) and all(agree(got[n], wanted[n]) for n in got)
    same = np.shape(got) == np.shape(wanted)
    return same and np.allclose(np.asarray(got, np.float64), wanted, 1e-4, 1e-5)


def test_every_row_has_an_expectation():
    for there, _ in rows():
        assert sum(part in there for part in EXPECTED) == 1, there
    assert len(rows()) == len(EXPECTED)


@pytest.mark.parametrize("part", EXPECTED)
def test_it_gives_what_plain_numpy_gives(part, given, taken):
    (result,) = (result for there, result in given.items() if part in there)
    wanted = EXPECTED[part](taken["model"], taken["ids"], taken["other"])
    assert agree(result, wanted)
