"""Every case in the reference data of icl-dynamics, through `edits_from_flags`."""

import functools
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import opto
from icl.compat.icl_dynamics import edits_from_flags, load_run


DATA = Path(__file__).resolve().parents[2] / "shared/data/icl_dynamics"
CASES = DATA / "opto_cases.json"
FLAGS = json.loads(CASES.read_text()) if CASES.exists() else {}

needs_data = pytest.mark.skipif(not FLAGS, reason=f"{DATA} is absent")


@functools.cache
def files():
    return (
        {name: np.load(DATA / f"{name}.npz") for name in ("activations", "opto")},
        load_run(DATA / "run")[0],
    )


# A freeze with nothing to hold changes nothing.
@pytest.mark.filterwarnings("ignore::opto.NoEffectWarning")
@pytest.mark.parametrize("case", FLAGS or [pytest.param("", marks=needs_data)])
def test_logits_and_patterns_under_flags(case):
    data, model = files()
    inputs = (jnp.asarray(data["activations"][name]) for name in ("examples", "labels"))
    logits, record = opto.run(
        model,
        *inputs,
        record=["blocks.*.attn.pattern"],
        edits=edits_from_flags(FLAGS[case], folder=DATA),
    )
    patterns = np.stack([record[f"blocks.{i}.attn.pattern"] for i in range(2)], 1)
    np.testing.assert_allclose(logits, data["opto"][f"{case}/out"], atol=2e-5)
    np.testing.assert_allclose(patterns, data["opto"][f"{case}/patterns"], atol=2e-5)


TRAININGS = {
    "plain": "",
    "clamped": "--opto_prev_token_heads 0:0 --opto_ablate_heads 1:1 1:2",
    "keep_patterns": "--opto_ablate_heads 0:1 --opto_preserve_patterns",
}


@needs_data
@pytest.mark.parametrize("name", TRAININGS)
def test_losses_of_200_adam_steps(name):
    reference = np.load(DATA / "training.npz")
    classes, data = _training_data(), files()[0]["activations"]
    edits = edits_from_flags(TRAININGS[name], folder=DATA)
    model, _ = load_run(DATA / "run", 0)
    optimizer = optax.adam(1e-3)

    def one(model, examples, labels, tap=opto.identity):
        logits = model(examples, labels, tap=tap)[-1]
        return -jax.nn.log_softmax(logits)[labels[-1]]

    def mean(model, examples, labels):
        lifted = functools.partial(opto.toolkit.lift(one), edits=edits)
        return jnp.mean(jax.vmap(lifted, (None, 0, 0))(model, examples, labels))

    def step(carry, batch):
        model, state = carry
        model = eqx.combine(model, static)
        loss, grads = eqx.filter_value_and_grad(mean)(model, *batch)
        updates, state = optimizer.update(grads, state)
        model = eqx.apply_updates(model, updates)
        return (eqx.filter(model, eqx.is_inexact_array), state), loss

    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    batches = jnp.asarray(classes[reference["class_idxs"]]), reference["labels"]
    scan = jax.jit(lambda carry: jax.lax.scan(step, carry, batches))
    (arrays, _), losses = scan((arrays, optimizer.init(arrays)))
    np.testing.assert_allclose(losses, reference[f"{name}/loss"], atol=1e-4)
    inputs = (jnp.asarray(data[k]) for k in ("examples", "labels"))
    out, _ = opto.run(eqx.combine(arrays, static), *inputs, edits=edits)
    np.testing.assert_allclose(out, reference[f"{name}/final_out"], atol=2e-3)


def _training_data():
    h5py = pytest.importorskip("h5py")
    with h5py.File(DATA / "classes.h5") as file:
        return file["feat"][:, 0]
