"""What must hold of every task and every model: of every row of `kinds.py`."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kinds import MODELS, shaken, TASKS
from tapped import Plain

import opto
from icl.batches import batch


each_task = pytest.mark.parametrize("task", TASKS)
each_model = pytest.mark.parametrize("name", MODELS)

sample_many = jax.jit(batch, static_argnames="size")


@functools.cache
def case(name):
    """A model with arrays that all matter, its task, and one example."""
    kind = MODELS[name]
    keys = jax.random.split(jax.random.key(1), 3)
    task = TASKS[kind.task]()
    return shaken(kind.build(keys[0]), keys[1]), task, task.sample(key=keys[2], seen=0)


# Tasks


@each_task
def test_a_sample_is_a_function_of_the_key(task):
    make, keys = TASKS[task], [jax.random.key(seed) for seed in (7, 8)]
    out = sample_many(make(), 64, key=keys[0])
    traced = sample_many._cache_size()
    assert eqx.tree_equal(out, sample_many(make(), 64, key=keys[0]))
    assert not eqx.tree_equal(out, sample_many(make(), 64, key=keys[1]))
    assert sample_many._cache_size() == traced  # One program for all keys.
    for leaf in jax.tree.leaves(out):
        assert len(np.unique(leaf, axis=0)) > 1  # Each part of an example is drawn.


@each_task
def test_jit_and_vmap_equal_eager(task):
    made, key = TASKS[task](), jax.random.key(7)
    eager = made.sample(key=jax.random.split(key, 64)[3], seen=0)
    fourth = jax.tree.map(lambda x: x[3], sample_many(made, 64, key=key))
    same = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6)
    jax.tree.map(same, eager, fourth)


# Models, as their task calls them


@each_model
def test_without_a_request_the_program_is_the_bare_one(name):
    model, task, example = case(name)

    def lowered(forward):
        return jax.jit(forward).lower(example).as_text()

    bare = lowered(lambda e: task.forward(model, e, tap=Plain()))
    assert lowered(lambda e: task.forward(model, e)) == bare
    assert lowered(lambda e: opto.visit(task.forward, model, e)[0]) == bare


@each_model
def test_a_clamp_of_every_site_to_what_it_is_is_nothing(name):
    model, task, example = case(name)

    @eqx.filter_jit
    def visit(model, clamped):
        edits = [opto.Clamp(site, value) for site, value in clamped.items()]
        return opto.visit(task.forward, model, example, record="**", edits=edits)

    outputs, record = visit(model, {})
    again, found = visit(model, dict(record))
    same = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    assert len(record) > 1
    same(again, outputs)
    for site in record:
        same(found[site], record[site], err_msg=site)


@each_model
def test_jit_equals_eager_with_finite_gradients(name):
    model, task, example = case(name)
    weights, rest = eqx.partition(model, eqx.is_inexact_array)

    def loss(weights):
        outputs = task.forward(eqx.combine(weights, rest), example)
        return task.metrics(outputs, example)["loss"]

    value, gradient = jax.jit(jax.value_and_grad(loss))(weights)
    assert value.shape == ()
    assert np.isfinite(value)
    np.testing.assert_allclose(value, loss(weights), rtol=1e-4)
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()
        assert np.any(leaf)  # Each array has a part in the loss.


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].causal])
def test_nothing_leaks_from_the_future(name):
    model, task, example = case(name)
    inputs = task.inputs(example)
    jacobian = jax.jit(jax.jacobian(lambda x: model(x, *inputs[1:])))(inputs[0])
    # [output, …, input, …], of which the first axes count.
    size = jnp.abs(jacobian).reshape(*jacobian.shape[:2], *inputs[0].shape).sum((1, 3))
    count = len(inputs[0])
    assert np.all(size[np.triu_indices(count, 1)] == 0)
    assert np.all(size[np.tril_indices(count)] > 0)
