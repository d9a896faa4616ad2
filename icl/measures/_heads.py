"""Measures of attention patterns: what heads attend to.

They read the roles of tokens from the sites `tokens.role`, `tokens.pair` and
`tokens.label`, so they work for any number of pairs in any order; see `icl.roles`. The
keys may be only the first of the tokens.

All except `attention_patterns` read a row as shares of attention that sum to one. They
refuse kinds of attention whose rows are not distributions: there, a weight means
nothing without the others, and heads cannot be compared.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

import opto

from ..checks import check_index, check_one_of
from ..edits import Induction
from ..roles import LABELS, PAIR, QUERY, ROLE, ROLES
from ._layers import stacked
from ._measure import check_shares, Measure, Reduction, SequenceMean, Under
from ._text import register


_TOKENS = (ROLE, PAIR, LABELS)
_PATTERN = re.compile(r"blocks\.(\d+)\.attn\.pattern")

Attended = Literal[
    "correct label",
    "incorrect label",
    "label",
    "correct exemplar",
    "incorrect exemplar",
    "exemplar",
    "query",
]
Heads = str | Sequence[Sequence[int]]
Attending = Literal["label", "exemplar", "query", "all"]

_MEAN = SequenceMean()

# From one layer's pattern and a record with the roles of the tokens.
_Score = Callable[[Float[Array, "head rows kv_seq"], opto.toolkit.Record], Array]


@register
def query_attention(
    to: Attended = "correct label",
    layer: int | None = None,
    *,
    over: Reduction = _MEAN,
) -> Measure:
    """The query's total attention to all tokens of a kind, in [0, 1].

    **Arguments:**

    - `to`: `"label"` or `"exemplar"` for all of them in the context; `"correct …"` for
        those of pairs that have the query's label; `"incorrect …"` for those of the
        other pairs; or `"query"` for the query itself.
    - `layer`: One layer, which gives `[head]`. `None` takes every layer and gives
        `[layer, head]`, with NaN where a layer has fewer heads than another.
    - `over`: How to combine the sequences.
    """
    check_one_of("to", to, Attended)
    score = functools.partial(_attention_to, to=to)
    label = f"the query's attention to {_PLURAL[to]}"
    return _measure(score, layer, over, label, rows="query")


@register
def induction_strength(layer: int | None = None, *, over: Reduction = _MEAN) -> Measure:
    """How much more the query attends to the correct label than to the others.

    In [-1, 1]: the query's attention to the labels in context that equal its own, minus
    its attention to the labels that differ (Singh et al. 2024, section 3.1).

    **Arguments:** `layer`, `over`: As for `query_attention`.
    """
    return _measure(_induction, layer, over, "induction strength", rows="query")


@register
def previous_token_strength(
    layer: int | None = None,
    *,
    queries: Attending = "label",
    over: Reduction = _MEAN,
) -> Measure:
    """How much each label attends to its exemplar, the token before it.

    In [0, 1], as the mean over the labels. This is the first half of an induction
    circuit.

    **Arguments:**

    - `layer`, `over`: As for `query_attention`.
    - `queries`: The tokens whose attention counts: those with the role `"label"`,
        `"exemplar"` (in context) or `"query"`, or `"all"`. Never the first token.
    """
    detector = opto.heads.previous_token
    return _previous(detector, queries, layer, over, "previous-token attention")


@register
def repeat_attention(layer: int | None = None, *, over: Reduction = _MEAN) -> Measure:
    """How much tokens of a second copy attend to what followed them in the first.

    In [0, 1], for sequences whose second half is their first half again: the induction
    score of Olsson et al. 2022 (arXiv 2209.11895), as a mean over all tokens of the
    second half but its last.

    **Arguments:** `layer`, `over`: As for `query_attention`.
    """

    def score(
        pattern: Float[Array, "head seq kv_seq"], record: opto.toolkit.Record
    ) -> Float[Array, " head"]:
        half = pattern.shape[1] // 2
        rows = jnp.diagonal(pattern[:, half:-1], 1, 1, 2)
        return jnp.mean(rows, -1)

    label = "attention to the token after the first copy"
    return _measure(score, layer, over, label, needs=())


@register
def previous_token_excess(
    layer: int | None = None,
    *,
    queries: Attending = "label",
    over: Reduction = _MEAN,
) -> Measure:
    """`previous_token_strength`, minus that of a head with uniform attention.

    **Arguments:** As for `previous_token_strength`.
    """
    detector = opto.heads.previous_token_excess
    label = "previous-token attention above uniform"
    return _previous(detector, queries, layer, over, label)


@register
def query_entropy(layer: int | None = None, *, over: Reduction = _MEAN) -> Measure:
    """The entropy of the query's attention, in nats; 0 if it attends to one token.

    **Arguments:** `layer`, `over`: As for `query_attention`.
    """
    label = "entropy of the query's attention (nats)"
    return _measure(_entropy, layer, over, label, rows="query")


@register
def attention_patterns(layer: int | None = None, *, over: Reduction = _MEAN) -> Measure:
    """The attention of each token to each token: `[layer, head, query, key]`.

    These are the effective weights, for any kind of attention.

    **Arguments:** `layer`, `over`: As for `query_attention`.
    """
    settings: Any = {"axes": "head query key", "needs": (), "shares": False}
    as_is = lambda pattern, record: pattern
    return _measure(as_is, layer, over, "attention", **settings)


# How well a model would do if one part of its circuit were perfect: while one part is
# missing, the rest may form long before the loss shows it (Singh et al. 2024, appendix,
# on the progress measures of an induction circuit).


@register
def previous_token_clamped(measure: Measure, heads: Heads) -> Under:
    """A measure with some heads clamped to attend only to the previous token.

    **Arguments:**

    - `measure`: The measure, for example the loss.
    - `heads`: One head, `"0:2"`, or several, `"0:1 0:2"`; or a list such as
        `[(0, 1), (0, 2)]`, which `strongest` gives.
    """
    return Under(
        (opto.attention.Pattern(opto.attention.PreviousToken(), heads=heads),), measure
    )


@register
def match_clamped(measure: Measure, heads: Heads) -> Under:
    """A measure with some heads clamped: the query attends only to its own label.

    **Arguments:** As for `previous_token_clamped`; heads for example `"1:3"`.
    """
    return Under((opto.attention.Pattern(Induction(), heads=heads),), measure)


def _measure(
    score: _Score,
    layer: int | None,
    over: Reduction,
    label: str,
    *,
    axes: str = "head",
    rows: Literal["all", "query"] = "all",
    needs: tuple[str, ...] = _TOKENS,
    shares: bool = True,
) -> Measure:
    """Makes a measure from a score of a pattern, for one layer or for every layer."""
    if layer is not None:
        check_index("layer", layer)
    at = "*" if layer is None else layer
    sites = (f"blocks.{at}.attn.pattern", *needs)
    axes = f"layer {axes}" if layer is None else axes
    read = _Read(score, layer, label if shares else "")
    return Measure(read, sites, over, axes, label, rows=rows, shares=shares)


@dataclasses.dataclass(frozen=True)
class _Read:
    """Reads a score of attention from a record; for all layers if `layer` is `None`.

    `shares` names the score, for errors, if the score needs rows that are shares of
    attention; it is empty if any weights will do.
    """

    score: _Score
    layer: int | None
    shares: str

    def __call__(
        self, record: opto.toolkit.Record, outputs: PyTree, example: Any
    ) -> Array:
        if self.layer is not None:
            return self._of(f"blocks.{self.layer}.attn.pattern", record)
        found = [match for name in record if (match := _PATTERN.fullmatch(name))]
        found.sort(key=lambda match: int(match[1]))
        return stacked([self._of(match[0], record) for match in found])

    def _of(self, name: str, record: opto.toolkit.Record) -> Array:
        if self.shares:
            check_shares(self.shares, name, record)
        return self.score(record[name], record)


def _attention_to(
    pattern: Float[Array, "head rows kv_seq"], record: opto.toolkit.Record, *, to: str
) -> Float[Array, " head"]:
    _, queries, keys = pattern.shape
    attended = jnp.where(_is(to, record)[-queries:, :keys], pattern, 0)
    return _of_query(jnp.sum(attended, -1), record)


def _is(to: str, record: opto.toolkit.Record) -> Bool[Array, "seq kv_seq"]:
    """For each token, which tokens are of a kind, seen from that token."""
    *pairs, role = to.split()
    own = record[LABELS][record[PAIR]]
    same = own[:, None] == own
    there = jnp.broadcast_to(record[ROLE] == ROLES[role], same.shape)
    if not pairs:
        return there
    return there & (same if pairs == ["correct"] else ~same)


def _induction(
    pattern: Float[Array, "head rows kv_seq"], record: opto.toolkit.Record
) -> Float[Array, " head"]:
    # Equals icl.edits.heads.induction_strength, but does not need every row.
    correct = _attention_to(pattern, record, to="correct label")
    return correct - _attention_to(pattern, record, to="incorrect label")


def _previous(
    detector: Callable[..., Float[Array, " head"]],
    queries: Attending,
    layer: int | None,
    over: Reduction,
    label: str,
) -> Measure:
    check_one_of("queries", queries, Attending)

    def score(
        pattern: Float[Array, "head seq kv_seq"], record: opto.toolkit.Record
    ) -> Float[Array, " head"]:
        chosen = None if queries == "all" else record[ROLE] == ROLES[queries]
        return detector(pattern, chosen)

    needs = () if queries == "all" else _TOKENS
    return _measure(score, layer, over, label, needs=needs)


def _entropy(
    pattern: Float[Array, "head rows kv_seq"], record: opto.toolkit.Record
) -> Float[Array, " head"]:
    return _of_query(jnp.sum(jax.scipy.special.entr(pattern), -1), record)


def _of_query(
    values: Float[Array, "head rows"], record: opto.toolkit.Record
) -> Float[Array, " head"]:
    """The query's value, given values of all tokens or of only the last ones."""
    query = record[ROLE][-values.shape[1] :] == QUERY
    return jnp.mean(values, -1, where=query)


_PLURAL = {
    "correct label": "the correct label",
    "incorrect label": "incorrect labels",
    "label": "labels",
    "correct exemplar": "exemplars of the correct label",
    "incorrect exemplar": "exemplars of incorrect labels",
    "exemplar": "exemplars",
    "query": "itself",
}
