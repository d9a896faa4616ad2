"""Devices that share each batch of one member."""

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from regression import examples, member, regression

import icl
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.presets.induction import induction
from icl.runs import Run
from icl.training import devices_of, fit, Training
from icl.training._sharing import sharing
from icl.training.optimizers import Adam, Constant
from icl.training.schedules import Every


HELD = 7  # Examples that two devices cannot divide evenly.


def one(count=1):
    held = {"held": examples(regression(), HELD)}
    optimizer = Adam(Constant(0.05))
    found = [
        member(optimizer, evaluations=held, train_seed=seed) for seed in range(count)
    ]
    return found if count > 1 else found[0]


def training(steps, batch_size=8, **fields):
    fields = {"evaluate_at": Every(80), "checkpoint_at": Every(80), **fields}
    return Training(steps * batch_size, batch_size, **fields)


@pytest.fixture
def always(monkeypatch):
    """Shares batches even where it does not pay."""
    monkeypatch.setattr("icl.training._sharing._LEAST_USES", 0)


@pytest.fixture
def never(monkeypatch):
    def use(patched):
        patched.setattr("icl.training._fit.devices_of", lambda *_: 1)

    return use


@pytest.mark.parametrize("microbatch_size", [None, 4, 2])
def test_shared_batches_give_the_same_numbers(always, never, microbatch_size):
    plan = training(50, microbatch_size=microbatch_size)
    assert devices_of([one()], plan) == 2
    (shared,) = fit(one(), plan)
    with pytest.MonkeyPatch.context() as patched:
        never(patched)
        (alone,) = fit(one(), plan)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    for metric in ("loss", "grad_norm"):
        close(shared.log.train[metric], alone.log.train[metric])
    close(shared.model.weight, alone.model.weight)
    for metric in ("loss", "size"):
        ours, theirs = (x.log.evaluations["held"][metric] for x in (shared, alone))
        assert ours.shape == (6, HELD)
        close(ours, theirs)
    # Nothing is left on several devices.
    assert shared.model.weight.devices() == {jax.devices()[0]}


def test_members_come_before_batches(always):
    """With as many members as devices, each member has one device."""
    assert devices_of(one(2), training(5)) == 1
    assert devices_of(one(3), training(5)) == 1
    results = fit(one(2), training(20))
    alone = [fit(each, training(20))[0] for each in one(2)]
    for ours, theirs in zip(results, alone, strict=True):
        np.testing.assert_allclose(
            ours.log.train["loss"], theirs.log.train["loss"], rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize(
    ("batch", "microbatch", "devices", "wanted"),
    [
        *((32, None, 1, 1), (32, None, 2, 2), (32, None, 4, 4), (32, None, 5, 4)),
        *((30, None, 4, 3), (7, None, 4, 1), (30, 15, 4, 2), (30, 30, 4, 1)),
        (1, None, 4, 1),
    ],
)
def test_a_batch_is_divided_into_equal_parts(
    always, batch, microbatch, devices, wanted
):
    plan = training(1, batch, microbatch_size=microbatch)
    assert sharing(plan, one(), devices) == wanted


def test_models_with_many_parameters_that_are_rarely_used_are_not_shared():
    """With as many labels, the optimizer takes most of the time."""
    base = induction()
    assert sharing(base.training, base.build(), 2) == 2
    rare = icl.presets.presets()["coopetition"]()
    assert sharing(rare.training, rare.build(), 2) == 1


def small(sequences=640):
    return dataclasses.replace(
        induction(LowRankClasses(num_classes=60, num_exemplars=1, dim=6)),
        model=TransformerConfig(num_layers=1, d_model=8, num_heads=2),
        training=Training(
            sequences, 16, evaluate_at=Every(160), checkpoint_at=Every(320)
        ),
    )


def test_a_resumed_run_has_the_same_bits_on_as_many_devices(
    always, tmp_path, monkeypatch
):
    wanted = icl.run_experiment(small(), tmp_path / "whole")
    assert Run(tmp_path / "whole").devices == 2
    stopped_after(monkeypatch, 20)
    with pytest.raises(KeyboardInterrupt):
        icl.run_experiment(small(), tmp_path / "resumed")
    monkeypatch.undo()
    monkeypatch.setattr("icl.training._sharing._LEAST_USES", 0)
    found = icl.run_experiment(small(), tmp_path / "resumed", resume=True)
    for name in ("loss", "grad_norm"):
        assert np.array_equal(wanted.log.train[name], found.log.train[name])
    last = "checkpoints/000000000640.eqx"
    ours, theirs = (tmp_path / x / last for x in ("whole", "resumed"))
    assert ours.read_bytes() == theirs.read_bytes()


def stopped_after(monkeypatch, steps):
    """Stops the process, as a kill would, at an event after so many steps."""
    event = icl.training._fit._Fit._event

    def stopping(self, *args):
        event(self, *args)
        if self.step >= steps:
            self._save()
            raise KeyboardInterrupt

    monkeypatch.setattr(icl.training._fit._Fit, "_event", stopping)


def test_a_run_on_another_number_of_devices_says_so_and_goes_on(
    always, never, tmp_path, monkeypatch
):
    wanted = icl.run_experiment(small(), tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patched:
        stopped_after(patched, 20)
        with pytest.raises(KeyboardInterrupt):
            icl.run_experiment(small(), tmp_path / "run")
    never(monkeypatch)
    with pytest.warns(UserWarning, match="begun with devices=2 .* now it is 1"):
        found = icl.run_experiment(small(), tmp_path / "run", resume=True)
    np.testing.assert_allclose(
        found.log.train["loss"], wanted.log.train["loss"], rtol=1e-4, atol=1e-5
    )


def test_four_devices_share_a_batch(tmp_path):
    script = tmp_path / "four.py"
    script.write_text(
        f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from icl.devices import divide_cpu
divide_cpu(4)
import test_sharing as t
import icl.training._sharing
icl.training._sharing._LEAST_USES = 0
plan = t.training(50)
runs = [t.fit(t.one(), plan)[0] for _ in range(2)]
losses = [run.log.train["loss"].tolist() for run in runs]
held = runs[0].log.evaluations["held"]["loss"].tolist()
print(json.dumps([t.devices_of([t.one()], plan), losses, held]))
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    )
    devices, (first, second), held = json.loads(done.stdout)
    assert devices == 4
    assert first == second
    (alone,) = fit(one(), training(50))
    np.testing.assert_allclose(first, alone.log.train["loss"], rtol=1e-5, atol=1e-7)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    close(held, alone.log.evaluations["held"]["loss"])
