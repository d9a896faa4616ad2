"""The studies: which runs they have, and whether their edits are right."""

import dataclasses
import functools
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opto
from icl import Experiment
from icl.compat.icl_dynamics import edits_from_flags
from icl.config import from_json, to_json
from icl.data import HDF5Classes, LowRankClasses, TransformedClasses
from icl.edits.grafts import parse_edit
from icl.edits.ranked import RankedHeads
from icl.models import exemplar_label_interface, TransformerConfig
from icl.training.schedules import Every, Exactly
from sweeps.plan import groups, needs
from sweeps.studies.attention import runs as attention
from sweeps.studies.coopetition import runs as coopetition
from sweeps.studies.development import runs as development
from sweeps.studies.gradient_descent.layerwise import runs as layerwise
from sweeps.studies.gradient_descent.noise import runs as noise
from sweeps.studies.gradient_descent.order import runs as order
from sweeps.studies.induction import runs as induction
from sweeps.studies.induction.clamps import runs as clamps
from sweeps.studies.induction.edits import but
from sweeps.studies.induction.replicas import runs as replicas
from sweeps.studies.likelihood_ratio import runs as likelihood_ratio
from sweeps.studies.transience import runs as transience
from sweeps.studies.transience.spread import runs as spread
from sweeps.study import list_trials


FOLDER = Path("/studies/of ours")
STUDIES = {
    "induction": induction,
    "clamps": clamps,
    "coopetition": coopetition,
    "transience": transience,
    "replicas": replicas,
    "spread": spread,
    "likelihood_ratio": likelihood_ratio,
    "order": order,
    "noise": noise,
    "layerwise": layerwise,
    "attention": attention,
    "development": development,
}
SCALES = ("smoke", "small", "paper")
every_study = pytest.mark.parametrize("study", STUDIES)
every_scale = pytest.mark.parametrize("scale", SCALES)


@functools.cache
def experiments(study, scale):
    trials = list_trials(STUDIES[study], scale, FOLDER, None)  # Refuses equal names.
    return {trial.name: trial.experiment for trial in trials}


@pytest.mark.parametrize(
    ("study", "count"),
    # Two of the induction runs are not in the public scripts: A18's other seeds.
    [
        *(("induction", 32 + 31 + 2), ("coopetition", 27 + 18 + 2)),
        *(("transience", 2 + 32 + 5), ("clamps", 10 * 7)),
        *(("replicas", 5 * 47), ("spread", 5 * 3)),
        # Two tasks, twelve ablations; three of them once with more steps.
        ("likelihood_ratio", 3 * 2 + 12 + 3),
        # Eight seeds of three models; two models on contexts in two orders.
        ("order", 8 * 3 + 3 * 2 * 2),
        # One layer with five noises, a transformer with two.
        ("noise", 5 * (5 + 2)),
        # Five depths, two variants of the deepest, four noises, three contexts.
        ("layerwise", 2 * (5 + 2 + 4 + 3)),
        # Eight kinds and three windows.
        ("attention", 8 + 3),
        # Regression and an induction head.
        ("development", 5 * 2),
    ],
)
def test_a_paper_has_its_runs(study, count):
    assert len(experiments(study, "paper")) == count


@every_study
@every_scale
def test_experiments_survive_json(study, scale):
    for experiment in experiments(study, scale).values():
        text = json.dumps(to_json(experiment))
        assert from_json(Experiment, json.loads(text)) == experiment


@every_study
@every_scale
def test_what_a_run_needs_is_kept(study, scale):
    found = experiments(study, scale)
    dependent = 0
    for experiment in found.values():
        for path, checkpoint in experiment.sources():
            assert Path(path).parent == FOLDER
            training = found[Path(path).name].training
            kept = training.sequences_of(training.checkpoint_at)
            if checkpoint == -1:
                assert kept[-1] == training.seen_sequences
            else:
                assert checkpoint in kept
            dependent += 1
    wanted = {
        # All except the main run, four seeds, and the runs with one head.
        "induction": (9, 65 - 13, 65 - 13),
        "clamps": (12, 60, 60),
        "coopetition": (4, 28, 22),
        # All except the main run and the runs with one head.
        "replicas": (2 * 10, 5 * 38, 5 * 38),
    }
    assert dependent == wanted.get(study, (0, 0, 0))[SCALES.index(scale)]


@every_study
def test_smoke_is_few_programs(study):
    runs = experiments(study, "smoke")
    found = groups(runs, needs(runs, FOLDER), FOLDER)
    assert len(found) <= 8
    steps = [group.experiment.training.num_steps for group in found]
    assert max(steps) <= 100


@every_study
def test_smoke_builds(study):
    built = {}
    for experiment in experiments(study, "smoke").values():
        experiment = experiment.with_any_heads()
        # Drop fields that do not change the model or task and take seconds to build.
        bare = dataclasses.replace(
            experiment, edits=(), start=None, evaluations={}, init_seed=0, train_seed=0
        )
        if bare.data is not None:
            assert isinstance(bare.data, LowRankClasses | TransformedClasses)
            data = dataclasses.replace(bare.data, seed=0)
            bare = dataclasses.replace(bare, data=data)
        key = json.dumps(to_json(bare))
        if key not in built:
            member = bare.build()
            table = opto.sites(member.model, *member.task.interface.structs)
            built[key] = member.task, table
        task, table = built[key]
        for each in experiment.evaluations.values():
            own = each.of(experiment.task)
            if experiment.data is None:
                assert own.build(None).interface.num_outputs == 1
            else:
                assert own.build(task.data).num_labels <= task.num_labels
        edits = [parse_edit(t) for t in experiment.edits if not t.startswith("Graft")]
        opto.toolkit.check(edits, table)


@pytest.fixture(scope="module")
def model_and_inputs():
    config = TransformerConfig(d_model=16)
    build = eqx.filter_jit(
        lambda key: config.build(exemplar_label_interface(5, dim=4), key=key)
    )
    model = build(jax.random.key(0))
    # Initial attention is almost uniform, so edits of it would change little.
    model = jax.tree.map(lambda x: 3 * x if eqx.is_inexact_array(x) else x, model)
    examples = jax.random.normal(jax.random.key(1), (6, 2, 4))
    examples = jnp.concatenate([examples, examples[:, :1]], 1)
    return model, (examples, jnp.tile(jnp.array([1, 3, 1]), (6, 1)))


# Ranks of heads stand for the heads that a run finds.
ABLATE = "--opto_ablate_heads " + " ".join(f"1:{head}" for head in but(0))
PERFECT = "--opto_specific_fn perfect_prev_token_input"
COPY = "--opto_perfect_copy_from_head_pattern 1:0"
MATCH = "--opto_induction_heads 1:0"
ALL_OF_0 = " ".join(f"0:{head}" for head in range(8))
FLAGS = {
    "clamp-none": ABLATE,
    "clamp-previous-token": f"--opto_prev_token_heads 0:0 {ABLATE}",
    "clamp-layer-0": f"{PERFECT} {ABLATE}",
    "clamp-match": f"{MATCH} {ABLATE}",
    "clamp-copy": COPY,
    "clamp-layer-0-copy": f"{PERFECT} {COPY}",
    "only-head-2": "--opto_ablate_heads 1:0 1:1 1:3 1:4 1:5 1:6 1:7",
    "long": ABLATE,
    "classes-200-clamp-match": f"{MATCH} {ABLATE}",
    "labels-15-clamp-layer-0": f"{PERFECT} {ABLATE}",
    "labels-10-clamp-layer-0-copy": f"{PERFECT} {COPY}",
    "clamp-previous-token-other": f"--opto_prev_token_heads 0:7 {ABLATE}",
    "clamp-previous-token-several": f"--opto_prev_token_heads 0:0 0:1 0:2 {ABLATE}",
    "clamp-previous-token-all": f"--opto_prev_token_heads {ALL_OF_0} {ABLATE}",
    "match-0.30": f"{MATCH} --opto_induction_head_strength 0.3",
    "heads-0-1": "--opto_ablate_heads 1:2 1:3 1:4 1:5 1:6 1:7",
    "no-previous-token-on-labels": "--opto_disallow_prev_token_only_label "
    f"--opto_disallow_prev_token_heads {ALL_OF_0}",
    "without-previous-token-heads": "--opto_ablate_heads 0:0 0:1 0:2",
}


@pytest.mark.parametrize("name", FLAGS)
def test_edits_mean_what_the_flags_mean(name, model_and_inputs):
    model, inputs = model_and_inputs
    both = experiments("induction", "paper") | experiments("coopetition", "paper")
    ours = [parse_edit(text) for text in both[name].with_any_heads().edits]
    theirs = edits_from_flags(FLAGS[name])
    # A copy fixes no single pattern, so only the query's logits are equal.
    record = () if "copy" in name else "blocks.*.attn.out"
    logits, at = opto.run(model, *inputs, record=record, edits=ours)
    wanted, there = opto.run(model, *inputs, record=record, edits=theirs)
    plain, _ = opto.run(model, *inputs)
    assert np.abs(logits[:, -1] - plain[:, -1]).max() > 1e-2
    assert_close(logits[:, -1], wanted[:, -1])
    for site in at:
        rows = slice(-1, None) if site.startswith("blocks.1") else slice(None)
        assert_close(at[site][:, rows], there[site][:, rows])


def assert_close(found, wanted):
    """Bounds the error by the largest number: small numbers are sums of large ones."""
    atol = 1e-6 * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=atol)


def test_the_induction_papers_numbers():
    found = experiments("induction", "paper")
    main = found["main"]
    assert main.training.num_sequences == 1_000_000
    assert main.training.evaluate_at == Every(5000)
    assert main.training.checkpoint_at == Every(1000)
    assert {each.size for each in main.evaluations.values()} == {1000}
    assert (main.init_seed, main.train_seed, main.eval_seed) == (5, 0, 1)
    assert main.optimizer.learning_rate.rate == 1e-5
    assert found["clamp-match"].training.num_sequences == 600_000
    assert found["clamp-match"].training.evaluate_at == Every(1000)
    assert found["clamp-none"].training.checkpoint_at == Every(1000)
    assert found["clamp-copy"].training.checkpoint_at == Exactly((600_000,))
    assert found["long"].training.num_sequences == 2_000_000
    assert found["graft-seed-7"].training.num_sequences == 800_000
    assert found["graft-seed-7"].init_seed == 5
    classes = found["classes-200-clamp-layer-0"]
    assert classes.task.class_split.train == 200
    assert classes.training.num_sequences == 300_000
    labels = found["labels-15-long"].task.labels
    assert (labels.num_labels, labels.split.train, labels.split.val) == (15, 84, 21)
    assert sorted(float(n[6:]) for n in found if n.startswith("match-")) == [
        *(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65),
        *(0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
    ]
    # 26 and 23 million sequences, plus two more seeds.
    total = sum(each.training.num_sequences for each in found.values())
    assert round(total / 1e6, 1) == 51.6


def test_heads_are_those_of_the_unclamped_run():
    found = experiments("induction", "paper")
    (induction_head,) = found["clamp-copy"].heads.values()
    path = str(FOLDER / "main")
    assert induction_head == RankedHeads(path, "induction_strength", 1, (0,))
    previous = found["clamp-previous-token-other"].heads["other"]
    assert previous == RankedHeads(path, "previous_token", 0, (-1,))
    assert found["heads-0-3"].heads["all_but_0_3"].ranks == (1, 2, 4, 5, 6, 7)
    ablated = experiments("coopetition", "paper")["without-previous-token-heads"].heads
    expected = RankedHeads(path, "previous_token", 0, (0, 1, 2), checkpoint=7_800_000)
    assert ablated == {"previous": expected}
    small = experiments("coopetition", "small")
    (of_seed,) = small["without-previous-token-heads-seed-10"].heads.values()
    path = str(FOLDER / "main-seed-10")
    expected = dataclasses.replace(expected, run=path, checkpoint=800_000)
    assert of_seed == expected


def test_the_clamps_over_seeds():
    found = experiments("clamps", "paper")
    one = experiments("induction", "paper")
    for seed in range(10, 20):
        plain = found[f"seed-{seed}"]
        assert (plain.init_seed, plain.training.num_sequences) == (seed, 1_000_000)
        for name in clamps.CLAMPS:
            each = found[f"seed-{seed}-{name}"]
            assert each.edits == one[f"clamp-{name}"].edits
            assert (each.init_seed, each.training.num_sequences) == (seed, 600_000)
            assert each.training.evaluate_at == Every(1000)
            runs = {ranked.run for ranked in each.heads.values()}
            assert runs == {str(FOLDER / f"seed-{seed}")}
    # The seeds of one clamp train together, although their heads differ.
    packed = groups(found, needs(found, FOLDER), FOLDER)
    assert sorted(len(group.runs) for group in packed) == [10] * 7
    small = experiments("clamps", "small")
    assert small["seed-16"].training.checkpoint_at == Every(10_000)
    assert small["seed-16-none"].training.checkpoint_at == Every(20_000)
    assert small["seed-16-none"].training.evaluate_at == Every(2000)
    assert small["seed-16-copy"].training.checkpoint_at == Exactly((600_000,))


def test_classes_for_testing_stay_the_same():
    found = experiments("induction", "paper")
    splits = [found[n].task.class_split for n in ("long", "classes-200-long")]
    fewer, more = (set(split.part("train", 300)) for split in splits)
    assert fewer < more
    assert {*splits[0].part("test", 300)} == {*splits[1].part("test", 300)}


def test_the_coopetition_papers_numbers():
    found = experiments("coopetition", "paper")
    grafts = {n: e for n, e in found.items() if n.startswith("graft-ciwl")}
    at = sorted(e.sources()[0][1] for e in grafts.values())
    millions = (4, 8, 9.75, 9.8, 15, 20, 25, 31.5, 32, 48, 64)
    # Steps are whole batches, so the published file is 00009750016.eqx.
    exact = [9_750_016 if n == 9.75 else round(n * 1e6) for n in millions]
    assert at == exact
    assert all("from_=1" in e.edits[0] for e in grafts.values())
    starts = {n: e.start for n, e in found.items() if n.startswith("start-ciwl")}
    assert sorted(start.checkpoint // 10**6 for start in starts.values()) == [
        *(4, 5, 6, 7, 8, 9, 10, 12, 16)
    ]
    assert starts["start-ciwl-12M"].checkpoint == 12_000_000
    lengths = {n: e.training.num_sequences // 10**6 for n, e in found.items()}
    assert lengths["main"] == lengths["icl-only"] == lengths["graft-main-20M"] == 64
    assert lengths["12-layers-matched"] == 400
    assert lengths["main-320M"] == lengths["mlp-1600x5"] == 320
    assert lengths["data-12800x5"] == 100
    assert found["main"].training.checkpoint_at == Every(50_000)
    assert found["rope"].model.positions.theta == 30
    assert found["12-layers"].model.num_layers == 12
    assert [*found["main"].evaluations] == ["train", "icl", "flip", "ciwl", "iwl"]
    assert {e.size for e in found["main"].evaluations.values()} == {5000}
    assert len(found["12-layers-matched"].evaluations) == 12
    # All runs with two context pairs have the same evaluation sequences.
    kinds = ("ciwl-only", "icl-only", "matched")
    for name, each in found["main"].evaluations.items():
        assert all(found[kind].evaluations[name] == each for kind in kinds)


def test_the_transience_papers_numbers():
    found = experiments("transience", "paper")
    classes = found["classes-12800-seed-6"]
    assert classes.training.num_sequences == 1_600_000_000
    assert classes.init_seed == 6
    assert found["classes-1600-seed-5"].init_seed == 5
    clusters = found["dim-5120-3200x5-data-5-seed-6"]
    assert clusters.training.num_sequences == 64_000_000
    assert clusters.task.context.burstiness == 3
    noise = {"spread": 0.0, "class_spread": 0.5}
    assert clusters.data == LowRankClasses(3200, 5, dim=5120, seed=5, **noise)
    assert clusters.optimizer.learning_rate.rate == 3e-4


@every_study
@every_scale
def test_too_little_data_is_refused_in_a_line(study, scale):
    few = LowRankClasses(num_classes=31, num_exemplars=1)
    with pytest.raises(ValueError, match="got 31 |no --data") as caught:
        list_trials(STUDIES[study], scale, FOLDER, few)
    assert "\n" not in str(caught.value)


def test_data_of_the_users_own():
    enough = LowRankClasses(num_classes=13_000)
    trials = list_trials(coopetition, "paper", FOLDER, enough)
    assert {trial.experiment.data for trial in trials} == {enough}
    # A graft fits, because all models have one output for each class.
    icl_only = next(t.experiment for t in trials if t.name == "icl-only")
    assert icl_only.task.labels.num_labels == 13_000
    clusters = LowRankClasses(num_classes=3250, num_exemplars=5)
    trials = list_trials(transience, "paper", FOLDER, clusters)
    names = [trial.name for trial in trials]
    assert names == ["clusters-3200x5-seed-5", "clusters-3200x5-seed-6"]
    with pytest.raises(ValueError, match="there is no file"):
        list_trials(induction, "paper", FOLDER, HDF5Classes("nowhere.h5"))
