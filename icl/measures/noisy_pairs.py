"""Whether a model tells noisy pairs of a context from clean ones.

For tasks of `icl.tasks.regression` with `pair_noise`, whose examples say which pairs
are noisy. A score of .5 is chance. Train and evaluate with the placement `"mixed"`, as
otherwise a pair's position tells whether it is noisy.
"""

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

import opto

from ..checks import check_one_of
from ..tasks.regression import RegressionExample
from ._measure import OfModel
from ._regression import influences, of_regression
from ._text import register


WhichPairs = Literal["noisy", "shuffled"]

_SEED = 0


@register
def noise_attention() -> OfModel:
    """What queries attend to clean and to noisy pairs: `[layer, clean or noisy]`.

    The mean share of attention to a pair, over heads and queries; a pair of two tokens
    has both their shares. NaN for a layer whose rows are signed, see `noise_influence`.
    """

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        layers = _shares(model, batch, edits)
        return jnp.stack([_means(x, _mask(batch, "noisy")) for x in layers])

    label = "attention of a query to a pair"
    return of_regression(fn, "layer clean_or_noisy", label)


@register
def noise_auroc(mask: WhichPairs = "noisy") -> OfModel:
    """How well low attention tells noisy pairs from clean ones: AUROC by `[layer]`.

    The chance that a noisy pair gets less attention of the queries than a clean one of
    the same sequence, where equal ones count half; for each layer on its own. NaN if
    all pairs are of one kind, and for a layer whose rows are signed.

    **Arguments:** `mask`: `"noisy"`, or `"shuffled"` for a control: the same number of
    pairs of each sequence, chosen at random.
    """
    check_one_of("mask", mask, WhichPairs)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        layers = _shares(model, batch, edits)
        return jnp.stack([auroc_within(-x, _mask(batch, mask)) for x in layers])

    return of_regression(fn, "layer", "AUROC of low attention")


@register
def noise_influence() -> OfModel:
    r"""How strongly values of clean and noisy pairs act: `[clean or noisy]`.

    The mean of $|\partial \hat y / \partial y_i|$ over queries and pairs. It is defined
    for attention of any kind, and for the whole model.
    """

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        check_noise(batch)
        found = influences(model, batch, edits).mean(1)
        return _means(found, _mask(batch, "noisy"))

    return of_regression(fn, "clean_or_noisy", "influence of a pair's value")


@register
def influence_auroc(mask: WhichPairs = "noisy") -> OfModel:
    r"""How well low influence tells noisy pairs from clean ones: AUROC in [0, 1].

    As `noise_auroc`, with the influence $|\partial \hat y / \partial y_i|$ in place of
    attention.

    **Arguments:** `mask`: As for `noise_auroc`.
    """
    check_one_of("mask", mask, WhichPairs)

    def fn(model: Any, batch: RegressionExample, edits: tuple) -> Array:
        check_noise(batch)
        scores = -influences(model, batch, edits).mean(1)
        return auroc_within(scores, _mask(batch, mask))

    return of_regression(fn, "", "AUROC of low influence")


def auroc(
    scores: Float[Array, "*any"], positive: Bool[Array, "*any"]
) -> Float[Array, ""]:
    """The chance that a positive has a higher score than a negative; equal ones count
    half. NaN if there are none of either, or if a score is NaN."""
    values, chosen = scores.ravel(), positive.ravel()
    ordered = jnp.sort(values)
    below, upto = (jnp.searchsorted(ordered, values, side=s) for s in ("left", "right"))
    ranks = 0.5 * (below + upto + 1)
    count = chosen.sum()
    mean = jnp.where(chosen, ranks, 0).sum() / count
    found = (mean - 0.5 * (count + 1)) / (len(values) - count)
    defined = (count > 0) & (count < len(values)) & ~jnp.isnan(values).any()
    return jnp.where(defined, found, jnp.nan)


def auroc_within(
    scores: Float[Array, "sequence pair"], positive: Bool[Array, "sequence pair"]
) -> Float[Array, ""]:
    """The same chance for a positive and a negative of one sequence.

    Sequences differ in how large their scores are, which would count otherwise.
    """
    compared = positive.sum(-1) * (~positive).sum(-1)
    each = jax.vmap(auroc)(scores, positive)
    known = jnp.where(compared > 0, each, 0.0)
    return (compared * known).sum() / compared.sum()


def check_noise(batch: RegressionExample) -> None:
    """Raises `ValueError` unless the batch says which pairs are noisy."""
    if batch.noisy is None:
        raise ValueError("it needs sequences with noisy pairs; pair_noise is None")


def _mask(batch: RegressionExample, kind: WhichPairs) -> Bool[Array, "sequence pair"]:
    noisy = jnp.asarray(batch.noisy)
    if kind == "noisy":
        return noisy
    keys = jax.random.split(jax.random.key(_SEED), len(noisy))
    return jax.vmap(jax.random.permutation)(keys, noisy)


def _means(
    scores: Float[Array, "sequence pair"], noisy: Bool[Array, "sequence pair"]
) -> Float[Array, "2"]:
    """The means over clean and over noisy pairs."""
    kinds = (~noisy, noisy)
    return jnp.stack([jnp.where(k, scores, 0).sum() / k.sum() for k in kinds])


def _shares(
    model: Any, batch: RegressionExample, edits: Sequence[Any]
) -> list[Float[Array, "sequence pair"]]:
    """Each layer's attention from queries to pairs; NaN where rows are signed."""
    check_noise(batch)
    sites = [f"blocks.{i}.attn.pattern" for i in range(num_layers(model))]
    _, record = opto.run(model, batch.x, batch.y, record=sites, edits=edits)
    signed = [record.rows_of(site) for site in sites]
    if all(rows and rows.are != "distribution" for rows in signed):
        raise ValueError(
            "attention has no shares in any layer, its rows are signed; "
            "use noise_influence or influence_auroc"
        )
    return [
        by_pair(record[site], batch)
        if not rows or rows.are == "distribution"
        else jnp.full_like(batch.context_y, jnp.nan)
        for site, rows in zip(sites, signed, strict=True)
    ]


def by_pair(
    pattern: Float[Array, "sequence head token key"], batch: RegressionExample
) -> Float[Array, "sequence pair"]:
    """What queries attend to each pair: the mean over heads and queries.

    The last tokens are the queries. Each pair is one token or two, before them.
    """
    queries, pairs = batch.num_queries, batch.context_y.shape[-1]
    tokens = pattern.shape[-2] - queries
    if tokens % pairs:
        wanted = f"a multiple of the {pairs} pairs"
        raise ValueError(f"tokens of the context must be {wanted}, got {tokens}")
    rows = pattern[..., -queries:, :tokens].mean((1, 2))
    return rows.reshape(len(rows), pairs, -1).sum(-1)


def num_layers(model: Any) -> int:
    """How many layers a model has; tied ones count each time."""
    return getattr(model, "num_layers", len(model.blocks))
