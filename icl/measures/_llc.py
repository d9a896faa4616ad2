r"""The local learning coefficient: how degenerate the loss is around a model's weights.

Lau et al. 2023, "The local learning coefficient", arXiv 2308.12108. It is estimated by
$\hat\lambda = n\beta\,(\mathbb{E}[L(w)] - L(w^*))$ over weights $w$ sampled near $w^*$.
Restricted to some weights or to other data it is the refined one (Wang et al. 2024,
arXiv 2410.02984).
"""

import math
import re
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, PyTree

from ..batches import size_of
from ..checks import check_not_negative, check_scale, positive
from ..training.freezing import named_weights, trained_part
from ._hessian import each_loss
from ._measure import OfModel
from ._sgld import RMSpropSGLD, sampled_losses, Sampler, SGLD
from ._text import register


_SAMPLERS = {"sgld": SGLD(), "rmsprop": RMSpropSGLD()}


@register
def llc(
    draws: int = 200,
    burn_in: int = 100,
    chains: int = 8,
    step_size: float = 1e-5,
    localization: float = 100.0,
    temperature: float | None = None,
    batch_size: int = 128,
    weights: str = "**",
    heads: str = "",
    sampler: str | Sampler = "sgld",
    seed: int = 0,
) -> OfModel:
    r"""The local learning coefficient around the weights, by sampling: `[chain]`.

    `measures.llc_summary` gives the mean over chains with its standard error, and warns
    where chains disagree. The loss at the centre is that of all sequences. All
    checkpoints get the same noise, so that their differences are less noisy.

    **Arguments:**

    - `draws`, `burn_in`: How many steps of a chain count, and how many before them
        do not.
    - `chains`: Independent chains from the same weights.
    - `step_size`, `localization`: $\epsilon$ and $\gamma$ of SGLD; `icl llc-scan` draws
        a grid of both, to choose from.
    - `temperature`: The inverse temperature $\beta$; by default $1/\ln n$ for a batch
        of $n$ sequences.
    - `batch_size`: Sequences drawn for each step, with replacement.
    - `weights`: The weights that move, by name: `"blocks.1.attn"` stands for all below
        it, `*` and `**` as in `freeze`.
    - `heads`: Only the weights of these heads, as `"1:3 1:7"`: their rows of queries,
        keys and values and their columns of the output.
    - `sampler`: `"sgld"`, or `"rmsprop"` for preconditioned steps.
    - `seed`: Of batches and noise.

    **Raises:** `ValueError` for settings out of range, and when the measure is taken
    for weights that the model does not have.
    """
    trace = llc_trace(
        *(draws + burn_in, chains, step_size, localization, temperature),
        *(batch_size, weights, heads, sampler, seed),
    )
    positive("draws", draws)
    check_not_negative("burn_in", burn_in)

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        losses = trace.fn(model, task, batch, edits)
        centre, kept = losses[:, :1], losses[:, 1 + burn_in :]
        return llc_scale(batch, temperature) * (kept - centre).mean(1)

    return OfModel(fn, "chain", "local learning coefficient")


@register
def llc_trace(
    steps: int = 300,
    chains: int = 8,
    step_size: float = 1e-5,
    localization: float = 100.0,
    temperature: float | None = None,
    batch_size: int = 128,
    weights: str = "**",
    heads: str = "",
    sampler: str | Sampler = "sgld",
    seed: int = 0,
) -> OfModel:
    """The losses along the chains of `llc`, after the whole batch's: `[chain, step]`.

    The first entry of each chain is the loss at the centre on all sequences. Then comes
    the loss before each step: the centre's, and by how much that of the step's own
    sequences has changed since.

    **Arguments:** `steps` is the number of steps; the others as for `llc`.
    """
    positive("steps", steps)
    positive("chains", chains)
    positive("batch_size", batch_size)
    check_scale("step_size", step_size)
    check_not_negative("localization", localization)
    if temperature is not None:
        check_scale("temperature", temperature)
    if isinstance(sampler, str) and sampler not in _SAMPLERS:
        known = ", ".join(_SAMPLERS)
        raise ValueError(f"sampler is one of {known}, got {sampler!r}")
    kind = _SAMPLERS[sampler] if isinstance(sampler, str) else sampler

    def fn(model: Any, task: Any, batch: PyTree, edits: tuple) -> Array:
        moving = _moving(model, weights, heads)
        losses, flat = each_loss(model, task, edits)
        count = size_of(batch)
        one = lambda example: losses(flat, jax.tree.map(lambda x: x[None], example))[0]
        there = jax.lax.map(one, batch, batch_size=min(batch_size, count))
        centre = there.mean()

        def loss(flat: Array, key: Any) -> Array:
            which = jax.random.randint(key, (min(batch_size, count),), 0, count)
            some = jax.tree.map(lambda x: x[which], batch)
            # What the step's sequences lose at the centre is known: without it, the
            # noise of small batches would hide the change.
            return centre + jnp.mean(losses(flat, some) - there[which])

        def chain(key: Any) -> Array:
            return sampled_losses(
                loss,
                flat,
                scale=llc_scale(batch, temperature),
                localization=localization,
                step_size=step_size,
                steps=steps,
                key=key,
                sampler=kind,
                moving=moving,
            )

        along = jax.vmap(chain)(jax.random.split(jax.random.key(seed), chains))
        return jnp.concatenate([jnp.full((chains, 1), centre), along], 1)

    return OfModel(fn, "chain step", "loss along a chain")


class LLC(NamedTuple):
    """Means over chains, with their standard errors."""

    mean: np.ndarray
    standard_error: np.ndarray


def llc_summary(values: Float[ArrayLike, "*axes chain"]) -> LLC:
    """The mean of `llc` over chains, with its standard error.

    **Warns** where an estimate is not above zero or not finite, which it cannot be at a
    minimum, and where the standard error is over a fifth of the mean.
    """
    values = np.asarray(values, np.float64)
    count = values.shape[-1]
    mean = values.mean(-1)
    deviation = values.std(-1, ddof=1) if count > 1 else np.full(mean.shape, np.nan)
    error = deviation / math.sqrt(count)
    bad = ~(mean > 0)
    if bad.any():
        why = "the weights are no minimum, or step_size is too large"
        warnings.warn(f"{bad.sum()} of {bad.size} are not above 0: {why}", stacklevel=2)
    apart = ~bad & (error > 0.2 * mean)
    if apart.any():
        why = "take more draws or chains, or a smaller step_size"
        many = f"the chains of {apart.sum()} of {apart.size} disagree"
        warnings.warn(f"{many}: {why}", stacklevel=2)
    return LLC(mean, error)


def llc_scale(batch: PyTree, temperature: float | None = None) -> float:
    r"""The factor $n\beta$ on the loss of a batch of $n$ sequences."""
    count = size_of(batch)
    return count * (1 / math.log(max(count, 3)) if temperature is None else temperature)


def _moving(model: Any, weights: str, heads: str) -> Array:
    """1 for the weights that move, 0 for others; flat, as those of `each_loss`."""
    every, _ = trained_part(model)
    if heads:
        chosen = _of_heads(every, model, heads)
    else:
        chosen = jax.tree.map(jnp.zeros_like, every)
    names = named_weights(every, weights)
    if not any(jax.tree.leaves(names)):
        raise ValueError(f"weights: the model has none at {weights!r}")
    ones = lambda on, x, of: jnp.ones_like(x) * on * (of if heads else 1)
    return ravel_pytree(jax.tree.map(ones, names, every, chosen))[0]


def _of_heads(every: PyTree, model: Any, heads: str) -> PyTree:
    masks = jax.tree.map(jnp.zeros_like, every)
    if not re.fullmatch(r"\d+:\d+( \d+:\d+)*", heads):
        raise ValueError(f"heads is written as '1:3 1:7', got {heads!r}")
    for pair in heads.split():
        layer, head = map(int, pair.split(":"))
        blocks = getattr(model, "blocks", ())
        attn = getattr(blocks[layer], "attn", None) if layer < len(blocks) else None
        if attn is None or head >= attn.num_heads:
            raise ValueError(f"heads: there is no head {pair}")
        at = lambda tree, layer=layer: tree.blocks[layer].attn
        key_head = head * attn.num_kv_heads // attn.num_heads
        parts = {"query": head, "key": key_head, "value": key_head, "output": head}
        for name, k in parts.items():
            of = getattr(at(masks), name).weight
            count = attn.num_heads if name in ("query", "output") else attn.num_kv_heads
            width = of.shape[name == "output"] // count
            rows = slice(k * width, (k + 1) * width)
            place = (slice(None), rows) if name == "output" else rows
            where = lambda tree, at=at, name=name: getattr(at(tree), name).weight
            masks = eqx.tree_at(where, masks, of.at[place].set(1))
    return masks
