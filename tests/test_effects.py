"""Whether edits change anything: measured in the run, and said in a warning."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tapped import transformer

import opto
from opto import Clamp, Freeze, Graft, NoEffectWarning, Scale, Steer, Zero


class Sums(eqx.Module):
    """The running sums of a sequence and their total; nothing reads `peak`."""

    input_axes = ("seq",)

    def __call__(self, x, *, tap=opto.identity):
        x = tap("x", x, "seq")
        sums = tap("sums", jnp.cumsum(x), "seq")
        tap("peak", jnp.max(sums), "")
        return tap("total", jnp.sum(sums), "")


X = np.array([[1.0, 0.0, 2.0], [3.0, 0.0, -1.0]], np.float32)


def warned(call):
    """The messages of the warnings about edits without effect."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if w.category is NoEffectWarning]


# By name: edits, and for each whether it changes an entry of its site.
CASES = {
    "zero_of_zero": (lambda: [Zero("x", seq=1)], [False]),
    "zero_of_some": (lambda: [Zero("x", seq=[1, 2])], [True]),
    "factor_1": (lambda: [Scale("x", 1.0), Scale("x", 2.0)], [False, True]),
    "direction_0": (lambda: [Steer("sums", 0.0)], [False]),
    "one_example": (lambda: [Clamp("x", 3.0, seq=0)], [True]),
    "overwritten": (lambda: [Scale("x", 3.0, seq=0), Clamp("x", 7.0)], [False, True]),
    "twice": (lambda: [Zero("x", seq=0), Zero("x", seq=0)], [False, False]),
    "undone": (lambda: [Scale("x", 2.0), Scale("x", 0.5)], [True, True]),
    "frozen": (lambda: [Zero("x", seq=0), Freeze("sums")], [True, True]),
    "nothing_to_freeze": (lambda: [Freeze("sums")], [False]),
    "glob": (lambda: [Zero("*"), Scale("total", 2.0)], [True, False]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_edit_is_left_out_once(name):
    make, changes = CASES[name]
    edits = make()
    said = warned(lambda: opto.run(Sums(), X, edits=edits))
    assert len(said) == changes.count(False)
    for edit in (e for e, does in zip(edits, changes, strict=True) if not does):
        assert any(text.startswith(f"{edit!r} changes nothing at ") for text in said)


def test_nan_equals_nan():
    x = jnp.array([[jnp.nan, 1.0]])
    assert warned(lambda: opto.run(Sums(), x, edits=[Scale("x", 2.0, seq=0)]))
    assert not warned(lambda: opto.run(Sums(), x, edits=[Zero("x", seq=0)]))


def test_a_value_that_nothing_reads():
    table = opto.sites(Sums(), X)
    assert table.unread == {"peak"}
    assert "peak   float32[]  (the model does not use" in repr(table)
    run = lambda record: opto.run(Sums(), X, edits=[Scale("peak", 2.0)], record=record)
    (said,) = warned(lambda: run(()))
    assert "the model does not use what its tap returns at peak" in said
    assert not warned(lambda: run("peak"))


def test_nothing_is_measured_within_jit():
    edits = [Zero("x", seq=1)]
    run = jax.jit(lambda x: opto.run(Sums(), x, edits=edits)[0])
    assert not warned(lambda: run(X))


def test_a_sweep_warns_if_no_point_changes_anything():
    sweep = lambda edits: opto.sweep(lambda out, x: out, Sums(), X, edits=edits)
    assert not warned(lambda: sweep(Zero("x").each("seq")))  # One of three does not.
    each = Scale("x", 1.0).each("seq")
    (said,) = warned(lambda: sweep(each))
    assert said == f"{each!r} changes nothing at x at any point"
    some = opto.stack([Zero("x", seq=0, strength=s) for s in (0.0, 0.5)])
    assert not warned(lambda: sweep(some))
    none = opto.stack([Zero("x", seq=0, strength=0), Zero("sums", seq=0, strength=0)])
    assert len(warned(lambda: sweep(none))) == 1
    # An edit beside the swept one.
    (said,) = warned(lambda: sweep([Steer("sums", 0.0), Zero("x").each("seq")]))
    assert said.startswith("Steer('sums'")


def test_the_edits_of_a_graft():
    model, other = transformer(), transformer()
    inputs = jnp.ones((5, 3)), jnp.zeros(5, int)
    inner = [Zero("blocks.0.attn.z"), Scale("blocks.0.attn.v", 1.0)]
    graft = Graft(other, until=0, edits=inner)
    said = warned(lambda: opto.run(model, *inputs, edits=[graft]))
    assert [text.split(" changes")[0] for text in said] == [repr(inner[1])]


def test_effects():
    """Counts and sizes by hand, over both examples."""
    edits = [Zero("x", seq=[0, 1]), Scale("sums", 3.0, seq=-1), Steer("x", 0.0)]
    table = opto.effects(Sums(), X, edits=edits)
    plain, zeroed = X.cumsum(1), X * [0, 0, 1]
    sums = zeroed.cumsum(1)

    def total(sums):
        return (sums * [1, 1, 3]).sum(1)

    first, second, third = table
    assert (first.entries, first.largest) == (2, 3)
    assert first.outputs == np.abs(total(sums) - total(plain)).max()
    assert (second.entries, second.largest) == (2, np.abs(2 * sums[:, -1]).max())
    assert second.outputs == np.abs(2 * sums[:, -1]).max()
    assert (third.entries, third.largest, third.outputs) == (0, 0, 0)
    lines = repr(table).splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("Zero('x', seq=[0, 1])")
    assert table._repr_html_().count("<tr>") == 4


def test_a_change_that_does_not_reach_the_outputs():
    edits = [Zero("x"), Freeze("sums")]
    first, second = opto.effects(Sums(), X, edits=edits)
    assert (first.entries, first.outputs) == (4, 0)
    assert second.entries > 0
