"""Weights that training leaves as they are."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from small import small

from icl import run_experiment
from icl.config import from_json, to_json
from icl.experiments import Experiment
from icl.models import FavorAttention, TransformerConfig, UnstabilisedFavorAttention
from icl.training import fit
from icl.training._steps import initial_state
from icl.training.optimizers import AdamW, Constant, SGD


# With decay: it would change every weight that is trained, even without a gradient.
OPTIMIZER = AdamW(Constant(0.01), weight_decay=0.5)


def by_path(model):
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_array))
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in leaves
    }


def changed(experiment):
    """The paths of the weights that training changes, and all paths."""
    member = experiment.build()
    [result] = fit(member, experiment.training)
    before, after = by_path(member.model), by_path(result.model)
    moved = {path for path in before if (before[path] != after[path]).any()}
    return moved, set(before)


def under(paths, *starts):
    return {path for path in paths if path.startswith(starts)}


@pytest.mark.parametrize(
    ("freeze", "starts"),
    [
        ((), ()),
        (("blocks.*.attn.query",), ("blocks.0.attn.query", "blocks.1.attn.query")),
        (("blocks.1", "unembed.bias"), ("blocks.1.", "unembed.bias")),
        (("**.weight",), None),
    ],
)
def test_frozen_weights_stay_and_all_others_move(freeze, starts):
    moved, paths = changed(small(freeze=freeze, optimizer=OPTIMIZER))
    frozen = (
        {path for path in paths if path.endswith(".weight")}
        if starts is None
        else under(paths, *starts)
        if starts
        else set()
    )
    assert bool(freeze) == bool(frozen)
    assert moved == paths - frozen


def test_frozen_weights_have_no_state_in_the_optimizer():
    def sizes(freeze):
        state = initial_state(small(freeze=freeze).build(), 32)
        return sum(leaf.size for leaf in jax.tree.leaves(state.optimizer))

    weights = by_path(small().build().model)
    frozen = sum(weights[path].size for path in under(weights, "blocks."))
    assert sizes(()) - sizes(("blocks",)) == 2 * frozen  # Adam has two moments.


def test_random_features_are_never_trained():
    """No update, no decay and no state in the optimizer; but they are in the state."""
    kinds = FavorAttention(8), UnstabilisedFavorAttention(8)
    model = TransformerConfig(d_model=16, num_heads=2, attention=kinds)
    experiment = small(model=model, optimizer=OPTIMIZER)
    moved, paths = changed(experiment)
    features = {f"blocks.{i}.attn.kind.directions.value" for i in (0, 1)}
    assert moved == paths - features
    state = initial_state(experiment.build(), 32)
    assert features < by_path(state.model).keys()
    sizes = {path: x.size for path, x in by_path(state.model).items()}
    states = sum(x.size for x in jax.tree.leaves(state.optimizer) if x.ndim)
    assert states == 2 * sum(sizes[path] for path in moved)
    with pytest.raises(ValueError, match="no weights at 'blocks.0.attn.kind'"):
        small(model=model, freeze=("blocks.0.attn.kind",)).build()


def test_the_unfrozen_weights_train_as_if_the_frozen_were_constants():
    """A step of SGD on some weights does not depend on whether others move."""
    one_step = dataclasses.replace(small().training, num_sequences=32)
    base = small(optimizer=SGD(Constant(0.1)), training=one_step)
    some = dataclasses.replace(base, freeze=("blocks",))
    [whole], [part] = (fit(e.build(), one_step) for e in (base, some))
    whole, part = by_path(whole.model), by_path(part.model)
    for path in whole.keys() - under(whole, "blocks."):
        np.testing.assert_allclose(part[path], whole[path], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        (("blocks.0.attn.qury",), "did you mean 'blocks.0.attn.query'"),
        (("blocks.2",), "no weights at 'blocks.2'; did you mean 'blocks"),
        (("**",), "leaves no weights to train"),
        ("blocks", r"write ('blocks',)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_path_that_freezes_nothing_is_an_error(freeze, message):
    with pytest.raises(ValueError, match=r"freeze") as error:
        small(freeze=freeze).build()
    if not isinstance(freeze, str):
        assert message in str(error.value)
    with pytest.raises(ValueError, match="freeze") as error:
        fit(
            dataclasses.replace(small().build(), freeze=freeze),
            small().training,
        )
    assert message in str(error.value)


def test_a_run_knows_what_it_freezes_and_resumes(tmp_path):
    experiment = small(freeze=("blocks.*.attn.key", "embedding"))
    assert from_json(Experiment, to_json(experiment)) == experiment
    assert to_json(experiment)["freeze"] == ["blocks.*.attn.key", "embedding"]
    run_experiment(experiment, tmp_path / "run")
    with pytest.raises(ValueError, match="freeze"):
        run_experiment(small(), tmp_path / "run", resume=True)
    run_experiment(experiment, tmp_path / "run", resume=True)


def test_members_must_freeze_the_same():
    members = [small(freeze=freeze).build() for freeze in ((), ("blocks",))]
    with pytest.raises(ValueError, match="member 1 has another structure"):
        fit(members, small().training)
