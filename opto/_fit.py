"""Edits that are learnt: their arrays are trained while the model stays as it is."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from tqdm import tqdm

from ._batched import split
from ._check_edits import as_edits
from ._checks import is_metric, one_number, whole
from ._discover import known_sites
from ._edit import AbstractEdit
from ._examples import batch_shape, one_example
from ._run import run
from ._sweep import checked_table


class Fitted(NamedTuple):
    """What `opto.fit` gives.

    **Fields:**

    - `edits`: The trained edits.
    - `losses`: The loss at each step, before its update.
    """

    edits: tuple[AbstractEdit, ...]
    losses: Float[np.ndarray, " step"]


# Of an edit's fields, those that say where and how strongly, or hold other runs.
_NOT_LEARNT = {"where", "strength", "values", "means", "source"}


def fit(
    edits: Sequence[AbstractEdit],
    loss: Callable[..., Array],
    model: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    steps: int,
    optimizer: optax.GradientTransformation | None = None,
    targets: Sequence[Any] = (),
    batch_size: int | None = None,
    seed: int = 0,
    train: Callable[[tuple[AbstractEdit, ...]], Any] | None = None,
) -> Fitted:
    """Trains the arrays of edits, with the model frozen.

    ```python
    edits = [opto.Steer("blocks.0.resid_post", 0.01 * direction, axes="d_model")]
    loss = lambda logits, ids, labels: cross_entropy(logits[:, -1], labels).mean()
    edits, losses = opto.fit(edits, loss, model, [ids], targets=[labels], steps=500)
    ```

    **Arguments:**

    - `edits`: As for `opto.run`; trained from their values on.
    - `loss`: `loss(outputs, *inputs, *targets)`, one number.
    - `model`, `inputs`: As for `opto.run`; `inputs` is a list.
    - `steps`: How many updates, in one compiled scan.
    - `optimizer`: Adam with a rate of .01 by default.
    - `targets`: More arrays for the loss, with the batch axis of the inputs.
    - `batch_size`: How many examples a step takes, drawn without replacement; all by
        default. Recorded values of a `Patch` are taken along.
    - `seed`: The seed of these draws.
    - `train`: What is trained, `lambda edits: edits[0].strength`. By default all arrays
        of floats but strengths, and values and means of other runs.

    **Raises:** `ValueError` as `opto.run`, if there is nothing to train, and for a loss
    that is not one finite number.
    """
    edits, inputs = as_edits(edits), tuple(inputs)
    is_metric(loss)
    steps = whole("steps", steps, 1)
    checked_table(model, inputs, edits)
    example, lead = one_example(model, inputs)
    batch = batch_shape(inputs, lead)
    if batch_size is not None and (len(batch) != 1 or not 0 < batch_size <= batch[0]):
        wanted = f"from 1 to the number of examples; the inputs have batch {batch}"
        raise ValueError(f"batch_size is {wanted}, got {batch_size}")
    along = split(edits, known_sites(model, example), batch)[0]
    learnt, fixed = eqx.partition(edits, _chosen(edits, train))
    data = inputs, tuple(targets)
    value = _Loss(loss, model, fixed, along, data, batch, batch_size)
    learnt, losses = minimised(value, learnt, optimizer, steps, seed)
    return Fitted(eqx.combine(learnt, fixed), losses)


def minimised(
    value: Callable[[Any, Any], Array],
    learnt: Any,
    optimizer: optax.GradientTransformation | None,
    steps: int,
    seed: int,
) -> tuple[Any, Float[np.ndarray, " step"]]:
    """Arrays after some steps down a function of them and of a key, and its values."""
    optimizer = optax.adam(0.01) if optimizer is None else optimizer
    state = learnt, optimizer.init(learnt)
    keys = jax.random.split(jax.random.key(seed), steps)
    found: list[np.ndarray] = []
    piece = max(1, steps // 50)
    with tqdm(total=steps, desc="fit", unit="step", disable=None) as bar:
        for start in range(0, steps, piece):
            here = keys[start : start + piece]
            state, losses = _scan(value, optimizer, state, here)
            found.append(np.asarray(losses))
            if not np.isfinite(found[-1]).all():
                first = start + int(np.argmin(np.isfinite(found[-1])))
                raise ValueError(f"the loss is not finite at step {first}")
            bar.update(len(here))
            bar.set_postfix(loss=f"{found[-1][-1]:.4g}")
    return state[0], np.concatenate(found)


@eqx.filter_jit
def _scan(value, optimizer, state, keys):
    def step(state, key):
        learnt, moments = state
        found, slopes = eqx.filter_value_and_grad(value)(learnt, key)
        updates, moments = optimizer.update(slopes, moments, learnt)
        return (eqx.apply_updates(learnt, updates), moments), found

    return jax.lax.scan(step, state, keys)


class _Loss(eqx.Module):
    """The loss of some examples, as a function of the arrays that are trained."""

    loss: Callable[..., Array]
    model: Any
    fixed: Any
    along: Any
    data: Any
    batch: tuple[int, ...] = eqx.field(static=True)
    size: int | None = eqx.field(static=True)

    def __call__(self, learnt: Any, key: Any) -> Array:
        fixed, (inputs, targets) = self.fixed, self.data
        if self.size is not None:
            which = jax.random.choice(key, self.batch[0], (self.size,), replace=False)
            fixed = eqx.combine(taken(self.along, which), fixed)
            inputs, targets = taken(self.data, which)
        out, _ = run(self.model, *inputs, edits=eqx.combine(learnt, fixed))
        return one_number(self.loss(out, *inputs, *targets))


def taken(tree: Any, which: Any) -> Any:
    """Some examples of a tree of arrays."""
    return jax.tree.map(lambda x: jnp.asarray(x)[which], tree)


def _chosen(edits: tuple[AbstractEdit, ...], train: Any) -> Any:
    """True at the arrays to train."""
    nothing = jax.tree.map(lambda _: False, edits)
    if train is not None:
        return eqx.tree_at(train, nothing, replace_fn=lambda _: True)

    def of(edit: AbstractEdit, none: Any) -> Any:
        fields = [x for x in dataclasses.fields(edit) if not x.metadata.get("static")]
        names = [field.name for field in fields if field.name not in _NOT_LEARNT]
        parts = lambda edit: [getattr(edit, name) for name in names]
        floats = [jax.tree.map(eqx.is_inexact_array, part) for part in parts(edit)]
        is_none = lambda x: x is None
        return eqx.tree_at(parts, none, floats, is_leaf=is_none) if names else none

    found = tuple(map(of, edits, nothing))
    if not any(jax.tree.leaves(found)):
        raise ValueError(
            f"fit: no array to train in {list(edits)!r}; say which, train="
        )
    return found
