"""Which entries depend on which: the declared table, and what changes in fact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opto._axes import arrived, begin, read, through


RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 3))
# For a value of shape (6, 4). Functions in FULL change all entries that they declare.
FULL = {
    "elementwise": lambda x: jnp.tanh(x) * 2 + 1,
    "every_other_row": lambda x: x[::2],
    "last_row": lambda x: x[-1],
    "without_the_last": lambda x: x[:-1],
    "columns": lambda x: x[:, 1:3],
    "reversed": lambda x: x[::-1],
    "transposed": lambda x: x.T,
    "matrix": lambda x: x @ W,
    "matrix_ahead": lambda x: W.T @ x.T,
    "mean_of_rows": lambda x: x.mean(0),
    "norm": lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1),
    "stacked": lambda x: jnp.stack([x, x]),
    "after_another": lambda x: jnp.concatenate([jnp.ones((2, 4)), x]),
    "halves": lambda x: jnp.split(x, 2)[1],
    "flattened": lambda x: x.reshape(-1),
    "paired": lambda x: jnp.stack([x, 2 * x], 1).reshape(12, 4),
    "by_head": lambda x: x.reshape(6, 2, 2).transpose(1, 0, 2),
    "row_by_row": jax.vmap(lambda row: jnp.cumsum(row).sum() + row),
    "softmax": lambda x: jax.nn.softmax(x),
    "jitted": jax.jit(lambda x: x[1:] * 3),
    "taken_from_a_table": lambda x: jnp.asarray(W)[x[:, 0].astype(int)],
    "set_at_the_end": lambda x: x.at[-1, -1].set(0.0)[1:],
}
SOME = {
    "shifted_sum": lambda x: x[1:] + x[:-1],
    "loop": lambda x: jax.lax.scan(lambda c, row: (c + row, c), x[0], x)[1],
    "chosen": lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x, lambda x: 2 * x, x),
    "sorted": lambda x: jnp.sort(x, axis=0),
    "at_an_index": lambda x: jax.lax.dynamic_index_in_dim(x, x[0, 0].astype(int)),
}


def said(fn, x, entries):
    traced = jax.make_jaxpr(fn)(x)
    program = traced.jaxpr
    made = through(program, {program.invars[0]: {"x": begin(x.shape)}})
    trail, shape = made[0]["x"], traced.out_avals[0].shape
    found = np.broadcast_to(arrived(entries, trail, len(shape)), shape)
    return found, read([trail], x.shape)


def moved(fn, x, entries):
    """The entries that change in fact, for steps of several sizes."""
    steps = [np.where(entries, RNG.normal(size=x.shape), 0) for _ in range(3)]
    return np.any([np.asarray(fn(x) != fn(x + step)) for step in steps], 0)


@pytest.mark.parametrize("name", [*FULL, *SOME])
def test_what_moves_is_what_is_said(name):
    fn = (FULL | SOME)[name]
    x = jnp.asarray(RNG.uniform(0, 3, size=(6, 4)))
    whole = np.zeros(fn(x).shape, bool)
    for row in range(6):
        entries = np.zeros((6, 1), bool)
        entries[row] = True
        found, used = said(fn, x, entries)
        there = moved(fn, x, entries)
        assert not np.any(there & ~found)
        assert used[row].any() or not there.any()
        if name in FULL and name != "taken_from_a_table":
            assert np.array_equal(there.any(-1), found.any(-1))
        whole |= found
    assert name in SOME or not found.all() or name in ("mean_of_rows", "last_row")
    assert whole.any()


def test_what_is_read():
    x = jnp.ones((6, 4))
    for fn, rows in ((lambda x: x[::2], [0, 2, 4]), (lambda x: x[-1] + x[0], [0, 5])):
        used = said(fn, x, np.ones((1, 1), bool))[1]
        assert np.flatnonzero(used.any(1)).tolist() == rows
