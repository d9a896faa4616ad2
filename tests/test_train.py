import contextlib
import dataclasses
import functools
import re
import signal
import threading
import warnings

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from regression import examples, Linear, linear, member, Regression, regression, TRACES
from stops import stopping_at

import icl.training._fit
import opto
from icl.data import LowRankClasses
from icl.models import TransformerConfig
from icl.presets.induction import induction
from icl.runs import open_run, Run
from icl.training import fit, Training
from icl.training._members import Members
from icl.training.optimizers import Adam, Constant, SGD
from icl.training.schedules import Dense, Every, Exactly, LogSpaced


NEVER = Exactly(())


def training(sequences, batch_size=8, **fields):
    fields = {"evaluate_at": NEVER, "checkpoint_at": NEVER, **fields}
    return Training(sequences, batch_size, **fields)


def same_bits(a, b):
    """Whether two results have the same numbers, to the bit."""
    logs = lambda x: (x.log.train, x.log.evaluations)
    arrays = lambda x: eqx.filter(x.model, eqx.is_array)
    ours, theirs = (jax.tree.leaves((logs(x), arrays(x))) for x in (a, b))
    assert len(ours) == len(theirs)
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(ours, theirs, strict=True)
    )


def error_of(model, x, y):
    """Prediction minus target in plain NumPy, for a batch."""
    weight, bias = (np.asarray(p, np.float64) for p in (model.weight, model.bias))
    return np.asarray(x, np.float64) @ weight + bias - np.asarray(y, np.float64)


# The batches


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1])
def test_the_batch_of_a_step_is_a_function_of_seed_and_step(seed):
    trained = member(SGD(Constant(0.0)), train_seed=seed)
    (result,) = fit(trained, training(10 * 8))
    losses = []
    for step in range(10):
        key = jax.random.fold_in(jax.random.key(seed), step)
        keys = jax.random.split(key, 8)
        x, y = jax.vmap(lambda key: trained.task.sample(key=key, seen=0))(keys)
        losses.append(np.mean(error_of(trained.model, x, y) ** 2))
    np.testing.assert_allclose(result.log.train["loss"], losses, rtol=1e-5)
    assert len(set(losses)) == 10


def test_tasks_are_told_of_the_sequences_seen_up_to_the_largest_number():
    class Told(Regression):
        """The target is the number of sequences, beside which predictions are small."""

        def sample(self, *, key, seen):
            x, _ = super().sample(key=key, seen=seen)
            return x, jnp.asarray(seen, float)

    task = regression()
    trained = member(SGD(Constant(0.0)), task=Told(task.truth, task.noise))
    step = jax.jit(icl.training._steps._step, static_argnums=(2, 3))
    state = icl.training._steps.initial_state(trained, 8)
    for steps, seen in ((1000, 8000), (2**28 - 1, 2**31 - 8), (2**30, 2**31 - 8)):
        later = dataclasses.replace(state, step=jnp.asarray(steps))
        _, row = step(trained, later, training(80), 1)
        np.testing.assert_allclose(np.sqrt(row["loss"]), seen, rtol=2e-3)


def test_other_dispatches_and_events_give_the_same_bits(monkeypatch):
    sets = {"held": examples(regression(), 10)}
    trained = member(Adam(Constant(0.05)), evaluations=sets)
    (wanted,) = fit(trained, training(200))
    for schedule in (Every(8), LogSpaced(7, 10), Dense(50, 90, 8, 64)):
        (result,) = fit(trained, training(200, evaluate_at=schedule))
        assert len(result.log.events) > 4
        result.log._evaluations.clear()
        assert same_bits(result, wanted)
    for module in (icl.training._fit, icl.training._steps):
        monkeypatch.setattr(module, "BUFFER", 3)
    monkeypatch.setattr(icl.training._fit, "_DISPATCH_SECONDS", 0)
    counts = []
    advance = icl.training._fit._Fit._advance

    def counted(self, stop, bar):
        before = self.step
        advance(self, stop, bar)
        counts.append(self.step - before)

    monkeypatch.setattr(icl.training._fit._Fit, "_advance", counted)
    (result,) = fit(trained, training(200))
    # The buffer limits the first calls, the time limits the others.
    assert counts == [3, 3, *[1] * 19]
    assert same_bits(result, wanted)


@pytest.mark.parametrize("count", [1, 2])
def test_one_compilation_serves_any_schedule(count):
    task = regression()
    held = {"held": examples(regression(), 10)}
    members = [
        member(task=task, evaluations=held, train_seed=seed) for seed in range(count)
    ]
    # A weakly typed weight, like `jnp.asarray(0.0)`, must not cause another trace.
    assert members[0].model.bias.weak_type
    schedule = Exactly((0, 1, 9, 17, 100, 400, 777, 800))
    TRACES.clear()
    results = fit(members, training(800, evaluate_at=schedule))
    assert len(results[0].log.events) == 8
    # The other devices may share a single member: that asks how costly an example is.
    assert TRACES == ["sample"] * (3 - count)


def test_microbatches_give_the_same_losses():
    trained = member(Adam(Constant(0.02)))
    whole, *others = [
        fit(trained, training(20 * 32, 32, microbatch_size=size))[0]
        for size in (None, 1, 8)
    ]
    for parts in others:
        for metric in ("loss", "grad_norm"):
            ours, theirs = parts.log.train[metric], whole.log.train[metric]
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        np.testing.assert_allclose(parts.model.weight, whole.model.weight, rtol=1e-5)


# The members


def eight():
    """Members that differ in everything allowed: seed, rate, edit, data, weights."""
    return [
        member(
            Adam(Constant(0.01 * (k + 1)), b1=0.8 + 0.01 * k),
            model=linear(seed=k),
            task=Regression(jnp.asarray([1.0, -k, 0.3 * k]), 0.1),
            train_seed=k,
            edits=(opto.Clamp("terms", 0.5 * k, dim=k % 3, strength=0.1 + 0.1 * k),),
            evaluations={"held": examples(regression(), 10, seed=k)},
        )
        for k in range(8)
    ]


LONG = training(200 * 8, evaluate_at=Every(800))


@pytest.fixture(scope="module")
def alone():
    return [fit(one, LONG)[0] for one in eight()]


@pytest.mark.parametrize(("count", "devices"), [(1, 1), (2, 2), (3, 2), (8, 2)])
def test_members_train_as_if_alone(count, devices, alone, monkeypatch):
    assert jax.local_device_count() == 2
    made = []
    init = Members.__init__

    def remembered(self, *args):
        init(self, *args)
        made.append(self)

    monkeypatch.setattr(Members, "__init__", remembered)
    results = fit(eight()[:count], LONG)
    (members,) = made
    kept = [x for x in members._own + members._shared if x is not None]
    assert {len(x.devices()) for x in kept} == {devices}
    assert len(results) == count
    for ours, theirs in zip(results, alone, strict=False):
        assert ours.log.train["loss"].shape == (200,)
        close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
        close(ours.log.train["loss"], theirs.log.train["loss"])
        close(ours.model.weight, theirs.model.weight)
        rows = (x.log.evaluations["held"]["loss"] for x in (ours, theirs))
        close(*rows)
        assert isinstance(ours.model.bias, jax.Array)
        assert ours.model.version == 7
    # All members do differ.
    totals = [float(result.log.train["loss"].sum()) for result in results]
    assert len({round(total, 2) for total in totals}) == count


def test_members_of_a_transformer_may_ablate_other_heads():
    source = LowRankClasses(num_classes=60, num_exemplars=1, dim=6)
    small = TransformerConfig(num_layers=1, d_model=8, num_heads=2)
    plan = dataclasses.replace(
        induction(source),
        model=small,
        optimizer=Adam(Constant(3e-3)),
        evaluations={},
    )
    members = [
        dataclasses.replace(plan, edits=(f"Zero('blocks.0.attn.z', head={k})",)).build()
        for k in (0, 1)
    ]
    results = fit(members, training(200 * 4, 4))
    (alone,) = fit(members[1], training(200 * 4, 4))
    first, second = (result.log.train["loss"] for result in results)
    np.testing.assert_allclose(second, alone.log.train["loss"], rtol=1e-4, atol=1e-5)
    assert np.abs(first - second).mean() > 1e-3
    # Each member's own ablated head gets no gradient in its values; the other's does.
    for k, (one, result) in enumerate(zip(members, results, strict=True)):
        values = lambda model: np.asarray(model.blocks[0].attn.value.weight)
        moved = np.abs(values(result.model) - values(one.model)).reshape(2, -1).max(1)
        assert moved[k] == 0
        assert moved[1 - k] > 1e-3


def test_what_members_share_is_kept_once():
    data, held = jnp.arange(3.0), {"held": examples(regression(), 10)}
    tasks = [Regression(data, 0.1) for _ in range(4)]
    members = Members(
        [
            member(task=task, evaluations=held, edits=(opto.Clamp("terms", float(k)),))
            for k, task in enumerate(tasks)
        ]
    )
    shared = [x for x in members._shared if x is not None]
    own = [x for x in members._own if x is not None]
    assert sorted(x.shape for x in shared) == [(3,), (10,), (10, 3)]
    # The optimizer's four numbers, the seed, and the edits' values and strengths have a
    # member axis.
    assert [x.shape for x in own] == [(4,)] * 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": SGD}, "structure"),
        ({"optimizer": lambda: Adam(Constant(0.1), clip_norm=1.0)}, "structure"),
        ({"edits": lambda: (opto.Clamp("terms", 0.0),)}, "structure"),
        ({"evaluations": lambda: {"held": examples(regression(), 5)}}, "structure"),
        ({"task": lambda: regression(4)}, r"shapes: \(3,\), \(4,\)"),
    ],
)
def test_members_may_differ_in_numbers_only(changes, words):
    other = member(**{name: make() for name, make in changes.items()})
    with pytest.raises(ValueError, match=words) as caught:
        fit([member(), other], training(80))
    assert "\n" not in str(caught.value)


def test_a_member_that_diverges_leaves_the_others_alone(alone):
    bad = member(
        Adam(Constant(1e30), b1=0.5),
        task=Regression(jnp.asarray([1.0, 2.0, 3.0]), 0.1),
        edits=(opto.Clamp("terms", 0.0, dim=1, strength=0.1),),
        evaluations={"held": examples(regression(), 10)},
    )
    message = "member 1: the loss is inf at step 1; the others continue"
    with pytest.warns(UserWarning, match=message) as seen:
        first, diverged, last = fit([eight()[0], bad, eight()[2]], LONG)
    assert len(seen) == 1  # Once in all, not at each dispatch.
    assert not np.isfinite(diverged.log.train["loss"][-1])
    for ours, theirs in ((first, alone[0]), (last, alone[2])):
        np.testing.assert_allclose(
            ours.log.train["loss"], theirs.log.train["loss"], rtol=1e-4, atol=1e-5
        )


def test_once_all_diverge_it_stops_and_the_folders_resume(tmp_path):
    # Each step overshoots, so the loss grows until it is infinite.
    members = [member(SGD(Constant(rate))) for rate in (1.5, 3.0)]
    plan = training(400 * 8, evaluate_at=Every(80), checkpoint_at=Every(80))
    stopped = []
    for _ in range(2):
        with contextlib.ExitStack() as stack:
            folders = [tmp_path / "a", tmp_path / "b"]
            runs = [stack.enter_context(open_run(f, {}, resume=True)) for f in folders]
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            with pytest.raises(
                FloatingPointError, match="no other member is left"
            ) as caught:
                fit(members, plan, runs=runs, resume_interval=0.0)
            message = r"member 0: the loss is inf at step (\d+);"
            stopped += [int(n) for n in re.findall(message, str(caught.value))]
            for run in runs:
                point = run.resume_points[-1]
                assert 80 <= point < 400 * 8
                assert run.checkpoints == list(range(0, point + 1, 80))
                assert len(run.log.train["loss"]) == point // 8
            # Member 0 diverges later, and then stops the fit before the next event.
            assert np.isfinite(runs[0].log.train["loss"]).all()
            assert not np.isfinite(runs[1].log.train["loss"]).all()
            assert point // 8 <= stopped[-1] < point // 8 + 10
    assert len(stopped) == 2
    assert stopped[0] == stopped[1]


# Edits in training


def test_a_clamp_in_training_is_the_clamp_baked_into_the_model():
    class Baked(Linear):
        def __call__(self, x, *, tap=opto.identity):
            return jnp.sum((self.weight * x).at[1].set(0.7)) + self.bias

    held = {"held": examples(regression(), 10)}
    plain = member(evaluations=held)
    clamp = opto.Clamp("terms", 0.7, dim=1)
    clamped = member(edits=(clamp,), evaluations=held)
    start = linear()
    baked = Baked(start.weight, start.bias, start.version)
    look = training(400, evaluate_at=Every(200))
    results = [
        fit(one, look)[0]
        for one in (plain, clamped, member(model=baked, evaluations=held))
    ]
    rows = [result.log.evaluations["held"]["loss"] for result in results]
    losses = [result.log.train["loss"] for result in results]
    np.testing.assert_allclose(losses[1], losses[2], rtol=1e-6)
    np.testing.assert_allclose(rows[1], rows[2], rtol=1e-6)
    assert np.abs(losses[0] - losses[1]).min() > 1e-3
    assert np.abs(rows[0] - rows[1]).max() > 1e-3


def test_weights_cut_off_by_an_edit_do_not_move():
    (result,) = fit(member(edits=(opto.Zero("terms", dim=1),)), training(400))
    before, after = np.asarray(linear().weight), np.asarray(result.model.weight)
    assert after[1] == before[1]
    assert np.all(np.abs(after - before)[[0, 2]] > 0.1)
    # The model cannot learn it otherwise, so the loss stays above the term's variance.
    assert result.log.train["loss"][-20:].mean() > 0.3


# Evaluation and the log


def test_evaluations_are_the_metrics_of_the_task(tmp_path):
    sets = {
        "near": examples(regression(), 10),
        "far": examples(regression(noise=3.0), 4, seed=2),
    }
    trained = member(Adam(Constant(0.05)), evaluations=sets)
    plan = training(10 * 8, evaluate_at=Every(40), checkpoint_at=Every(40))
    with open_run(tmp_path, {}) as run:
        (result,) = fit(trained, plan, runs=run)
        models = [run.load(trained.model, seen) for seen in (0, 40, 80)]
    assert result.log.events.tolist() == [0, 40, 80]
    assert set(result.log.evaluations) == {"near", "far"}
    for name, (x, y) in sets.items():
        error = np.stack([error_of(model, x, y) for model in models])
        rows = result.log.evaluations[name]
        assert set(rows) == {"loss", "size"}
        np.testing.assert_allclose(rows["loss"], error**2, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(rows["size"], np.abs(error), rtol=1e-4, atol=1e-6)
    assert np.array_equal(models[0].weight, linear().weight)
    assert np.array_equal(models[2].weight, result.model.weight)


def test_large_sets_are_evaluated_in_pieces(monkeypatch):
    monkeypatch.setattr("icl.training._steps._EVALUATION_CHUNK_ON_CPU", 4)
    x, y = examples(regression(), 11)  # Two full pieces and a remainder.
    trained = member(evaluations={"held": (x, y)})
    (result,) = fit(trained, training(8, evaluate_at=Exactly((0,))))
    wanted = error_of(trained.model, x, y) ** 2
    rows = result.log.evaluations["held"]["loss"]
    np.testing.assert_allclose(rows, wanted[None], rtol=1e-4, atol=1e-6)


def test_the_layout_of_the_log(tmp_path):
    trained = member(evaluations={"held": examples(regression(), 10)})
    # 100 sequences take four steps of 32, which is 128.
    plan = training(100, 32, evaluate_at=Every(30), checkpoint_at=Exactly((33, 100)))
    with open_run(tmp_path, {}) as run:
        (result,) = fit(trained, plan, runs=run)
    shapes = {}

    def visit(name, x):
        if isinstance(x, h5py.Dataset):
            shapes[name] = x.shape

    with h5py.File(tmp_path / "log.h5") as file:
        file.visititems(visit)
        assert file["train/iter"][()].tolist() == [32, 64, 96, 128]
        assert file["eval/iter"][()].tolist() == [0, 32, 64, 96, 128]
        losses = file["train/loss"][()]
        rows = file["eval/held/loss"][()]
    assert shapes == {
        "train/iter": (4,),
        "train/loss": (4,),
        "train/grad_norm": (4,),
        "eval/iter": (5,),
        "eval/held/loss": (5, 10),
        "eval/held/size": (5, 10),
    }
    assert np.array_equal(losses, result.log.train["loss"])
    assert np.array_equal(rows, result.log.evaluations["held"]["loss"])
    assert Run(tmp_path).checkpoints == [64, 128]


def test_no_event_comes_twice_when_a_finished_run_is_resumed(tmp_path):
    trained = member(evaluations={"held": examples(regression(), 10)})
    plan = training(64, evaluate_at=Every(32), checkpoint_at=Every(32))
    results = []
    for _ in range(2):
        with open_run(tmp_path, {}, resume=True) as run:
            results += fit(trained, plan, runs=run)
    assert same_bits(*results)
    assert results[1].log.events.tolist() == [0, 32, 64]
    assert len(Run(tmp_path).log.train["loss"]) == 8


def test_a_run_without_evaluation_sets_has_events_but_no_rows(tmp_path):
    with open_run(tmp_path, {}) as run:
        (result,) = fit(member(), training(16, evaluate_at=Every(8)), runs=run)
    assert result.log.events.tolist() == [0, 8, 16]
    assert Run(tmp_path).log.evaluations == {}


# Signals and threads


@pytest.fixture(scope="module")
def undisturbed():
    """A run without interruption, for the tests below: member, training, result."""
    trained = member(evaluations={"held": examples(regression(), 10)})
    plan = training(800, evaluate_at=Every(160), checkpoint_at=Every(160))
    return trained, plan, fit(trained, plan)[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_where_it_can_be_resumed(
    number, tmp_path, monkeypatch, undisturbed
):
    trained, plan, wanted = undisturbed
    for module in (icl.training._fit, icl.training._steps):
        monkeypatch.setattr(module, "BUFFER", 5)
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with open_run(tmp_path, {}) as run, stopping_at(30, number):
        with pytest.raises(KeyboardInterrupt, match="stopped at 280 sequences"):
            fit(trained, plan, runs=run, resume_interval=1e9)
        assert run.resume_points == [0, 280]
        assert len(run.log.train["loss"]) == 35
    assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with open_run(tmp_path, {}, resume=True) as run:
        (result,) = fit(trained, plan, runs=run)
    assert same_bits(result, wanted)
    assert Run(tmp_path).checkpoints == list(range(0, 801, 160))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_members_resume_on_another_number_of_devices(
    before, after, tmp_path, monkeypatch, alone
):
    every = jax.local_devices()

    def train(count):
        monkeypatch.setattr(jax, "local_devices", lambda: every[:count])
        with contextlib.ExitStack() as stack:
            folders = [tmp_path / f"{k}" for k in range(4)]
            opened = [open_run(folder, {}, resume=True) for folder in folders]
            runs = [stack.enter_context(run) for run in opened]
            return fit(eight()[:4], LONG, runs=runs)

    with monkeypatch.context() as patched, stopping_at(100):
        patched.setattr(icl.training._fit, "BUFFER", 50)
        patched.setattr(icl.training._steps, "BUFFER", 50)
        with pytest.raises(KeyboardInterrupt, match="stopped at"):
            train(before)
    assert 0 < max(Run(tmp_path / "0").resume_points) < LONG.num_sequences
    for ours, theirs in zip(train(after), alone, strict=False):
        pair = (x.log.train["loss"] for x in (ours, theirs))
        np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5)


def test_a_second_signal_stops_at_once(tmp_path, monkeypatch):
    def interrupted(self, stop, bar):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    monkeypatch.setattr(icl.training._fit._Fit, "_advance", interrupted)
    with open_run(tmp_path, {}) as run:
        with pytest.raises(KeyboardInterrupt):
            fit(member(), training(80), runs=run)
        assert run.resume_points == [0]


def test_a_signal_that_was_ignored_stays_so(monkeypatch):
    def interrupted(self, stop, bar):
        signal.raise_signal(signal.SIGINT)
        advance(self, stop, bar)

    advance = icl.training._fit._Fit._advance
    monkeypatch.setattr(icl.training._fit._Fit, "_advance", interrupted)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        (result,) = fit(member(), training(80))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(result.log.train["loss"]) == 10


def test_it_trains_in_a_thread():
    results = []
    train = lambda: results.extend(fit(member(), training(80)))
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    train()
    assert same_bits(*results)


# Bad input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: [], "at least one member"),
        (lambda: induction(), "got Experiment; icl.run_experiment trains an experim"),
        (lambda: [member(train_seed=2**32)], "train_seed"),
        (lambda: [member(edits=(opto.Zero("term"),))], "did you mean 'terms'"),
        (lambda: [member(optax.adam(1e-3))], "optimizer must be of type Adam or"),
        (lambda: [member(evaluations={"a/b": jnp.zeros((1, 3))})], "'a/b'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_members_that_cannot_be_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        fit(make(), training(80))


def test_each_member_has_a_folder_of_its_own(tmp_path):
    with open_run(tmp_path / "a", {}) as run:
        with pytest.raises(ValueError, match="2 members need as many runs, got 1"):
            fit([member(), member()], training(80), runs=run)
        with pytest.raises(ValueError, match="its own run folder"):
            fit([member(), member()], training(80), runs=[run, run])
