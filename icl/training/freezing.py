"""Weights that training leaves as they are: named by their paths, or `Untrained`."""

from collections.abc import Sequence

import equinox as eqx
import jax
from jaxtyping import PyTree

from opto.hints import did_you_mean
from opto.toolkit import glob

from ..protocols import Untrained


def trained_part(model: PyTree, freeze: Sequence[str] = ()) -> tuple[PyTree, PyTree]:
    """The floating-point arrays that training changes, and the rest of the model.

    Arrays in an `icl.protocols.Untrained` are among the rest.

    **Arguments:**

    - `freeze`: As `check_freeze` takes them.
    """
    frozen = _frozen(freeze)

    def is_trained(path, leaf) -> bool:
        return eqx.is_inexact_array(leaf) and not frozen(_name(path))

    chosen = jax.tree_util.tree_map_with_path(is_trained, model, is_leaf=_is_untrained)
    return eqx.partition(model, chosen)


def named_weights(model: PyTree, pattern: str) -> PyTree:
    """Which arrays a path names, as `check_freeze` takes it; `**` names all."""
    named = _frozen([pattern]) if pattern != "**" else lambda name: True
    is_named = lambda path, _: named(_name(path))
    return jax.tree_util.tree_map_with_path(is_named, model)


def _is_untrained(node: object) -> bool:
    return isinstance(node, Untrained)


def check_freeze(model: PyTree, freeze: Sequence[str]) -> None:
    """Checks the paths of weights to freeze.

    A path is made of attributes and positions, such as `blocks.0.attn.query.weight`. It
    stands for everything below it, too: `blocks.0.attn`. `*` stands for anything within
    one part (`blocks.*.attn.query`), and `**` for any number of parts (`**.bias`).

    **Raises:** `ValueError` for a path without any weights that could be trained; it
    suggests the nearest. Also if no weights are left to train.
    """
    if isinstance(freeze, str):
        raise ValueError(f"freeze must be a tuple: write ({freeze!r},)")
    names = [
        _name(path)
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            model, is_leaf=_is_untrained
        )
        if eqx.is_inexact_array(leaf)
    ]
    for pattern in freeze:
        if not any(map(_frozen([pattern]), names)):
            above = {".".join(n.split(".")[:k]) for n in names for k in range(1, 99)}
            hint = did_you_mean(pattern, sorted(above))
            raise ValueError(f"freeze: no weights at {pattern!r}{hint}")
    if freeze and all(map(_frozen(freeze), names)):
        raise ValueError(f"freeze leaves no weights to train: {', '.join(freeze)}")


def _frozen(freeze: Sequence[str]):
    chosen = [glob(f"{pattern}.**") for pattern in freeze]
    return lambda name: any(regex.fullmatch(name) for regex in chosen)


def _name(path: Sequence) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator=".")
