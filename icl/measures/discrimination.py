"""Measures of models that discriminate, against the exact Bayes predictor.

For tasks of `icl.tasks.discrimination` and the models of `icl.models.encoder`. Each
reads a whole batch, as correlations are not means over sequences.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import opto

from ..checks import check_one_of, check_scale
from ..tasks.discrimination import DiscriminationExample, ShiftedMean
from ._layers import stacked
from ._measure import OfModel
from ._text import register


Statistic = Literal["log_odds", "log_likelihood_ratio"]
Target = Literal["log_odds", "log_likelihood_ratio", "mean", "shift", "query_y"]
Direction = Literal["mean", "shift", "query"]
Tokens = Literal["query", "context", "all"]

_ITERATIONS = 500


def of_discrimination(
    fn: Callable[[Any, Any, DiscriminationExample, tuple], Array],
    axes: str,
    label: str,
    needs: tuple[str, ...] = ("embedding", "blocks", "head"),
) -> OfModel:
    """A measure of batches of `icl.tasks.discrimination`."""

    def checked(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        if not isinstance(batch, DiscriminationExample):
            wanted = "it needs sequences of icl.tasks.discrimination"
            raise ValueError(f"{wanted}, got {type(batch).__name__}")
        return fn(model, task, batch, edits)

    return OfModel(checked, axes, label, needs=needs)


@register
def lens_correlation(target: Statistic = "log_odds") -> OfModel:
    """How well each layer's read-out agrees with a statistic of the query: `[layer]`.

    Entry 0 is the embedded query, and entry $l$ the stream after $l$ blocks. The
    model's last layer reads the query's token there. The value is Pearson's
    correlation, NaN where the read-out does not vary.

    **Arguments:** `target`: `"log_odds"`, those of the exact Bayes predictor, or
    `"log_likelihood_ratio"`, of the true parameters, as in arXiv 2603.10573.
    """
    check_one_of("target", target, Statistic)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        streams = _query_streams(model, task, batch, edits)
        logits = jax.vmap(jax.vmap(model.head))(streams)[..., 0]
        return jax.vmap(lambda x: correlation(x, getattr(batch, target)))(logits)

    what = {"log_odds": "Bayes", "log_likelihood_ratio": "the LLR"}[target]
    return of_discrimination(fn, "layer", f"read-out's r with {what}")


@register
def probe(target: Target = "log_odds") -> OfModel:
    """How well a linear map of the query's token gives a quantity: R² by `[layer]`.

    Entry 0 is the embedded query, and entry $l$ the stream after $l$ blocks. The map is
    fitted by least squares to the first half of the batch; R² is of the second half. It
    is negative if the map is worse than the mean. For a vector, it is of all
    components together.

    **Arguments:** `target`: `"log_odds"` and `"log_likelihood_ratio"` of the query, its
    label `"query_y"`, or a hidden parameter of `ShiftedMean`: `"mean"` or `"shift"`.
    """
    check_one_of("target", target, Target)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        wanted = _parameter(batch, target)
        streams = _query_streams(model, task, batch, edits)
        wanted = wanted.reshape(len(wanted), -1).astype(streams.dtype)
        return jax.vmap(lambda x: held_out_r2(x, wanted))(streams)

    return of_discrimination(fn, "layer", f"R² of {target}")


@register
def steering(
    along: Direction = "mean", tokens: Tokens = "query", size: float = 1.0
) -> OfModel:
    r"""How the logit changes if points move, beside the Bayes log-odds: `[predictor]`.

    Each of two runs moves the points by `size`, one along a direction and one against
    it. The value is half the difference of the logits, as a mean over the batch: first
    the model's, then the exact Bayes predictor's, in nats.

    **Arguments:**

    - `along`: The direction of an example: of `"mean"` $\mu$ or `"shift"` $k$ of
        `ShiftedMean`, or of its `"query"` $x$.
    - `tokens`: Which points move: `"query"`, those of the `"context"`, or `"all"`.
    - `size`: How far, in units of a component of $x$.
    """
    check_one_of("along", along, Direction)
    check_one_of("tokens", tokens, Tokens)
    check_scale("size", size)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        raw = batch.query_x if along == "query" else _parameter(batch, along)
        step = size * raw / jnp.linalg.norm(raw, axis=-1, keepdims=True)

        def both(sign: int) -> Array:
            moved = _moved(batch, sign * step, tokens)
            logits, _ = opto.run(model, *task.inputs(moved), edits=edits)
            points = (moved.context_x, moved.context_y, moved.query_x)
            return jnp.stack([logits, jax.vmap(task.log_odds)(*points)])

        return 0.5 * (both(1) - both(-1)).mean(-1)

    where = "points" if tokens == "all" else f"the {tokens}"
    label = f"change of the logit (nats)\nwith {where} along {along}"
    return of_discrimination(fn, "predictor", label)


@register
def exchanged_patching(tokens: Tokens = "query") -> OfModel:
    """How much of the answer each head carries: `[layer, head]`.

    In another run, the labels 0 and 1 of the context are exchanged, so the other answer
    is right. The head's `z` is taken from there, at some tokens. The value is the
    change of the right label's logit, divided by its change between the two runs, both
    as means over the batch: 0 for a head that carries nothing, 1 for one that carries
    everything.

    **Arguments:** `tokens`: Where `z` is taken over: at the `"query"`, at the tokens of
    the `"context"`, or at `"all"`.
    """
    check_one_of("tokens", tokens, Tokens)

    def fn(model: Any, task: Any, batch: Any, edits: tuple) -> Array:
        sites = [f"blocks.{i}.attn.z" for i in range(len(model.blocks))]
        inputs = task.inputs(batch)
        other = task.inputs(task.corruptions["labels_exchanged"](batch))
        ends = opto.run(model, *inputs, edits=edits)[0]
        exchanged, record = opto.run(model, *other, record=sites, edits=edits)
        sign = jnp.where(batch.query_y == 1, 1.0, -1.0)

        def change(logits: Array) -> Array:
            return (sign * (logits - ends)).mean()

        def patched(site: str, head: Array) -> Array:
            length = record[site].shape[-2]
            where = {"query": -1, "context": range(length - 1), "all": range(length)}
            there = {"head": head, "seq": where[tokens]}
            patch = opto.Patch(site, {site: record[site]}, **there)
            return change(opto.run(model, *inputs, edits=[*edits, patch])[0])

        found = [
            jax.lax.map(
                lambda head, site=site: patched(site, head),
                jnp.arange(block.attn.num_heads),
            )
            for site, block in zip(sites, model.blocks, strict=True)
        ]
        return stacked(found) / change(exchanged)

    label = f"share carried by z, {tokens} tokens"
    return of_discrimination(fn, "layer head", label)


def correlation(
    x: Float[Array, " sequence"], y: Float[Array, " sequence"]
) -> Float[Array, ""]:
    """Pearson's correlation; NaN if one of them does not vary."""
    # Rounding of the mean would give a constant some variance.
    vary = (jnp.ptp(x) > 0) & (jnp.ptp(y) > 0)
    x, y = x - x.mean(), y - y.mean()
    found = jnp.vdot(x, y) / jnp.sqrt(jnp.vdot(x, x) * jnp.vdot(y, y))
    return jnp.where(vary, found, jnp.nan)


def held_out_r2(
    x: Float[Array, "sequence feature"], y: Float[Array, "sequence target"]
) -> Float[Array, ""]:
    """R² on the second half of the rows of the affine map fitted to the first half.

    The map is that of least squares, with a ridge of 1e-6 of the features' variance. R²
    is one minus the squared error, divided by that of the second half's mean.
    """
    half = len(x) // 2
    seen, wanted = x[:half] - x[:half].mean(0), y[:half] - y[:half].mean(0)
    ridge = 1e-6 * jnp.mean(seen**2) * half
    # LAPACK's solvers, called by two threads of a replay at once, make XLA wait forever
    # on a CPU.
    weights, _ = jax.scipy.sparse.linalg.cg(
        lambda w: seen.T @ (seen @ w) + ridge * w, seen.T @ wanted, maxiter=_ITERATIONS
    )
    left = y[half:]
    predicted = y[:half].mean(0) + (x[half:] - x[:half].mean(0)) @ weights
    error = jnp.sum((left - predicted) ** 2)
    return 1 - error / jnp.sum((left - left.mean(0)) ** 2)


def _query_streams(
    model: Any, task: Any, batch: DiscriminationExample, edits: Sequence[Any]
) -> Float[Array, "layer sequence d_model"]:
    """The query's token before the blocks and after each of them."""
    sites = ["embed", *(f"blocks.{i}.resid_post" for i in range(len(model.blocks)))]
    _, record = opto.run(model, *task.inputs(batch), record=sites, edits=edits)
    return jnp.stack([record[site][:, -1] for site in sites])


def _moved(
    batch: DiscriminationExample, step: Float[Array, "sequence dim"], tokens: Tokens
) -> DiscriminationExample:
    context_x, query_x = batch.context_x, batch.query_x
    if tokens != "query":
        context_x = context_x + step[:, None]
    if tokens != "context":
        query_x = query_x + step
    return dataclasses.replace(batch, context_x=context_x, query_x=query_x)


def _parameter(batch: DiscriminationExample, name: str) -> Float[Array, "sequence ..."]:
    """A number or a hidden parameter of each sequence."""
    if name not in ("mean", "shift"):
        return getattr(batch, name).astype(batch.query_x.dtype)
    if name not in batch.parameters:
        known = ", ".join(batch.parameters)
        wanted = f"{name!r} is a parameter of {ShiftedMean.__name__}"
        raise ValueError(f"{wanted}; this task has {known}")
    return batch.parameters[name]
