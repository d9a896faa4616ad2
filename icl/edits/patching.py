"""Patches clean values into runs on corrupted examples, which have another answer.

It tells how much of the clean answer returns.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

import opto

from ..batches import size_of
from ..text import ArraysByShape
from .ablation import on_batch, side_by_side


RESAMPLE = "resample"
Corruption = Callable[[Any], Any]
"""Makes a corrupted batch from a clean one: examples with other answers. Clean values
are patched into the run on the corrupted batch."""


def corruptions(task: Any) -> dict[str, Corruption]:
    """The ways to corrupt a task's batches, by name: the task's own come first."""
    own: Mapping[str, Corruption] = getattr(task, "corruptions", {})
    return {**own, RESAMPLE: resampled}


def resampled(batch: PyTree) -> PyTree:
    """The examples in another order: each is replaced by the one before it.

    **Raises:** `ValueError` for a single example.
    """
    size = size_of(batch)
    if size < 2:
        raise ValueError(f"the batch must have two or more sequences, got {size}")
    return jax.tree.map(lambda x: jnp.roll(x, 1, axis=0), batch)


@dataclasses.dataclass(frozen=True, repr=False)
class Patched(ArraysByShape):
    """How strongly a model gives the clean answer, as a mean over a batch.

    **Fields:**

    - `patched`: For each point of the grid; NaN where the model has no such point.
    - `corrupted`, `clean`: For the two runs without a patch.
    """

    patched: np.ndarray
    corrupted: float
    clean: float

    @property
    def recovered(self) -> np.ndarray:
        """`patched`, rescaled so that the corrupted run is 0 and the clean run is 1."""
        return (self.patched - self.corrupted) / (self.clean - self.corrupted)


@dataclasses.dataclass(frozen=True, repr=False)
class PatchedExamples(ArraysByShape):
    """The same as `Patched`, for each example of a batch."""

    patched: Float[np.ndarray, "*grid example"]
    corrupted: Float[np.ndarray, " example"]
    clean: Float[np.ndarray, " example"]

    def mean(self) -> Patched:
        """The means over the batch."""
        ends = float(self.corrupted.mean()), float(self.clean.mean())
        return Patched(self.patched.mean(-1), *ends)

    def by_token(
        self, axis: int, names: Sequence[Sequence[str]]
    ) -> tuple[Patched, list[str]]:
        """The means over the batch, with positions grouped by the names of tokens.

        A mean by position would mix tokens, because the right label is at another
        position in each example. An example with several tokens of one name counts
        with their mean; one without is left out of that name.

        **Arguments:**

        - `axis`: The axis of the grid that is the position.
        - `names`: The names of each example's tokens, `[example][position]`.

        **Returns:**

        The means, with the names as the axis, and the names.
        """
        table = np.array(names)
        known = sorted(set(table.flat))
        values = np.moveaxis(self.patched, axis, -1)  # [..., example, position]
        groups = []
        for name in known:
            there = table == name
            count = there.sum(-1)
            each = np.where(there, values, 0).sum(-1)[..., count > 0]
            groups.append((each / count[count > 0]).mean(-1))
        grouped = np.moveaxis(np.stack(groups, -1), -1, axis)
        return dataclasses.replace(self.mean(), patched=grouped), known


def evidence_label(task: Any) -> str:
    """The name of the quantity that `patch_clean` compares."""
    return getattr(task, "evidence_label", "negative loss")


def patch_clean(
    model: Any,
    task: Any,
    clean: PyTree,
    corrupted: PyTree,
    *,
    at: Any,
    edits: tuple[opto.toolkit.AbstractEdit, ...] = (),
) -> PatchedExamples:
    """Patches clean values into the corrupted run: how much of the answer returns?

    It compares the task's `evidence(outputs, example)` for the clean example, or minus
    the loss if the task has no `evidence`.

    **Arguments:**

    - `clean`, `corrupted`: The examples of both runs, two batches of the same size.
    - `at`: What is taken from the clean run, `opto.At(site).each(…)`.
    - `edits`: Applied in both runs.

    **Raises:** `ValueError` as `opto.patching.activation_patch`, and if the evidence is
    the same in both runs or undefined for an example.
    """
    forward, table = on_batch(model, task, clean)
    metric = eqx.Partial(_each_evidence, task, clean)
    inputs = [tuple(jax.tree.leaves(batch)) for batch in (corrupted, clean)]
    ends = []
    for leaves in inputs:
        outputs, _ = opto.run(forward, *leaves, edits=edits)
        each = _each_evidence(task, clean, outputs)
        if wrong := int(jnp.sum(~jnp.isfinite(each))):
            raise ValueError(
                f"the {evidence_label(task)} is undefined in {wrong} of {len(each)} "
                "sequences"
            )
        ends.append(np.asarray(each, np.float64))
    means = [float(each.mean()) for each in ends]
    if not abs(means[1] - means[0]) > 0:
        raise ValueError(
            f"there is nothing to patch: the {evidence_label(task)} is {means[0]:.4g} "
            "in both runs"
        )
    chunk = side_by_side(table, len(inputs[0][0]))
    patched = opto.patching.activation_patch(
        metric, forward, *inputs, at=at, edits=edits, chunk=chunk
    )
    return PatchedExamples(np.asarray(patched, np.float64), *ends)


def grid_of(
    table: opto.toolkit.Sites, site: str, axes: tuple[str, ...], shape: tuple[int, ...]
) -> list[list[int]]:
    """The indices along each axis of the grid of `opto.At(site).each(*axes)`."""
    layers = sorted({s.layer for s in table.match(site) if s.layer is not None})
    return [
        layers if axis == "layer" else list(range(size))
        for axis, size in zip(axes, shape, strict=True)
    ]


def _each_evidence(
    task: Any, clean: PyTree, outputs: PyTree, *leaves: Array
) -> Float[Array, " example"]:
    def minus_loss(outputs: PyTree, example: PyTree) -> Float[Array, ""]:
        return -task.metrics(outputs, example)["loss"]

    return jax.vmap(getattr(task, "evidence", minus_loss))(outputs, clean)
