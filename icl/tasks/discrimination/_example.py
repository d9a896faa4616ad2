"""What these tasks share: the example, changes of its context, inputs and metrics."""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from opto import identity, Tap

from ...checks import check_labels, check_probability, finite
from ...protocols import Input, Interface, Summary, TaskConfig
from ...summaries import AUROC, CalibrationError, Correlation, RankCorrelation


Pairs = tuple[Float[Array, "pair dim"], Int[Array, " pair"]]


@dataclasses.dataclass(frozen=True)
class Unchanged:
    """The context as it was drawn."""

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        return x, y


@dataclasses.dataclass(frozen=True)
class NoisyLabels:
    """Each label of the context is wrong with a probability."""

    probability: float
    """In [0, 1]; with 1/2, labels tell nothing."""

    def __post_init__(self):
        check_probability("probability", self.probability)

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        wrong = jax.random.bernoulli(key, self.probability, y.shape)
        return x, jnp.where(wrong, 1 - y, y)


@dataclasses.dataclass(frozen=True)
class ShuffledLabels:
    """The labels of the context in a random order, a new one in each example."""

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        return x, jax.random.permutation(key, y)


@dataclasses.dataclass(frozen=True)
class ShuffledPairs:
    """The pairs of the context in a random order, a new one in each example.

    Pairs are drawn independently, so this does not change the distribution: a control.
    """

    def apply(self, x, y, *, key: PRNGKeyArray) -> Pairs:
        order = jax.random.permutation(key, len(y))
        return x[order], y[order]


ContextChange = Unchanged | NoisyLabels | ShuffledLabels | ShuffledPairs


class DiscriminationExample(eqx.Module):
    """One example, or a batch of them with leading axes.

    **Attributes:**

    - `context_x`, `context_y`: The labelled points, as the model sees them. Labels are
        0 or 1.
    - `query_x`, `query_y`: The query, and its label to predict.
    - `log_likelihood_ratio`: How much likelier the query is in class 1 than in class 0,
        as a logarithm in nats, for someone who knows the hidden parameters. The labels'
        prior does not count.
    - `log_odds`: The log-odds of label 1 given only the context and the query, in nats:
        the exact Bayes predictor. It uses the context before any `ContextChange`.
    - `parameters`: The hidden parameters by name.
    """

    context_x: Float[Array, "*batch pair dim"]
    context_y: Int[Array, "*batch pair"]
    query_x: Float[Array, "*batch dim"]
    query_y: Int[Array, "*batch"]
    log_likelihood_ratio: Float[Array, "*batch"]
    log_odds: Float[Array, "*batch"]
    parameters: dict[str, Float[Array, "..."]]

    def check_batch(self) -> None:
        """Raises `ValueError` if some numbers are not finite."""
        finite("context_x", self.context_x)
        finite("query_x", self.query_x)
        for name in ("context_y", "query_y"):
            check_labels(name, getattr(self, name))


class Discrimination(TaskConfig):
    """The base of these tasks; a subclass has the fields and draws the points."""

    dim: int
    context: int
    context_change: ContextChange
    label_prior: float

    loss_unit: ClassVar[str] = "nats"
    evidence_label: ClassVar[str] = "logit of the right label"
    summaries: ClassVar[Mapping[str, Summary | None]] = {
        "auroc": AUROC("logit", "label"),
        "calibration_error": CalibrationError("logit", "label"),
        "bayes_correlation": Correlation("logit", "log_odds"),
        "bayes_rank_correlation": RankCorrelation("logit", "log_odds"),
        "llr_correlation": Correlation("logit", "log_likelihood_ratio"),
        "llr_rank_correlation": RankCorrelation("logit", "log_likelihood_ratio"),
        "logit": None,
        "label": None,
        "log_odds": None,
        "log_likelihood_ratio": None,
    }

    @abc.abstractmethod
    def draw(
        self, labels: Int[Array, " point"], *, key: PRNGKeyArray
    ) -> tuple[Float[Array, "point dim"], dict[str, Float[Array, "..."]]]:
        """Hidden parameters, and a point of each label."""

    @abc.abstractmethod
    def log_likelihood_ratio(
        self, x: Float[Array, " dim"], parameters: dict[str, Float[Array, "..."]]
    ) -> Float[Array, ""]:
        """Of class 1 over class 0 at `x`, in nats, for known parameters."""

    @abc.abstractmethod
    def exchanged(
        self, parameters: dict[str, Float[Array, "..."]]
    ) -> dict[str, Float[Array, "..."]]:
        """The hidden parameters with which class 0 is class 1, and 1 is 0."""

    @abc.abstractmethod
    def log_evidence_ratio(
        self,
        context_x: Float[Array, "pair dim"],
        context_y: Int[Array, " pair"],
        query_x: Float[Array, " dim"],
    ) -> Float[Array, ""]:
        """How much likelier all points are if the query has label 1 than if it has 0.

        The exact logarithm in nats, with the hidden parameters integrated out.
        """

    def log_odds(self, context_x, context_y, query_x) -> Float[Array, ""]:
        """The exact log-odds of label 1 given the context, in nats.

        The log-odds of the labels' prior plus `log_evidence_ratio`: labels do not
        depend on each other, nor on the hidden parameters.
        """
        gain = self.log_evidence_ratio(context_x, context_y, query_x)
        return gain + prior_log_odds(self.label_prior)

    @property
    def interface(self) -> Interface:
        """Points and labels of the context, and the query's point; one logit."""
        return Interface(
            (
                Input("context_x", (self.context, self.dim), "float32"),
                Input("context_y", (self.context,), "int32", count=2),
                Input("query_x", (self.dim,), "float32"),
            ),
            num_outputs=1,
        )

    def sample(
        self, *, key: PRNGKeyArray, seen: int | Int[Array, ""] = 0
    ) -> DiscriminationExample:
        """Draws one example; the distribution does not depend on `seen`."""
        label_key, point_key, change_key = jax.random.split(key, 3)
        coins = jax.random.bernoulli(label_key, self.label_prior, (self.context + 1,))
        labels = coins.astype(jnp.int32)
        points, parameters = self.draw(labels, key=point_key)
        x, query_x, y, query_y = points[:-1], points[-1], labels[:-1], labels[-1]
        ratio = self.log_likelihood_ratio(query_x, parameters)
        odds = self.log_odds(x, y, query_x)
        x, y = self.context_change.apply(x, y, key=change_key)
        return DiscriminationExample(x, y, query_x, query_y, ratio, odds, parameters)

    def inputs(self, example: DiscriminationExample) -> tuple[Array, Array, Array]:
        """The inputs of a model: the context, and the query without its label."""
        return example.context_x, example.context_y, example.query_x

    def forward(self, model, example, *, tap: Tap = identity) -> Float[Array, ""]:
        """The model's logit of label 1 for the query."""
        return model(*self.inputs(example), tap=tap)

    def metrics(
        self, logit: Float[Array, ""], example: DiscriminationExample
    ) -> dict[str, Float[Array, ""]]:
        """The scores of a logit.

        `loss` is the cross-entropy in nats, `accuracy` is 1 if the sign is right, and
        `regret` is the loss minus that of the Bayes predictor, in nats. The others are
        for summaries.
        """
        label = example.query_y.astype(logit.dtype)
        loss = _cross_entropy(logit, label)
        return {
            "loss": loss,
            "accuracy": ((logit > 0) == (label > 0.5)).astype(jnp.float32),
            "regret": loss - _cross_entropy(example.log_odds, label),
            "logit": logit,
            "label": label,
            "log_odds": example.log_odds,
            "log_likelihood_ratio": example.log_likelihood_ratio,
        }

    def evidence(
        self, logit: Float[Array, ""], example: DiscriminationExample
    ) -> Float[Array, ""]:
        """The logit of the query's own label."""
        return jnp.where(example.query_y == 1, logit, -logit)

    @property
    def corruptions(self) -> dict[str, Callable[[Any], Any]]:
        """`labels_exchanged`: the labels 0 and 1 of the context are exchanged, so the
        other answer is right."""
        return {"labels_exchanged": self._labels_exchanged}

    def _labels_exchanged(self, batch: DiscriminationExample) -> DiscriminationExample:
        # The prior stays; only the evidence changes its sign.
        prior = prior_log_odds(self.label_prior)
        return dataclasses.replace(
            batch,
            context_y=1 - batch.context_y,
            query_y=1 - batch.query_y,
            log_odds=2 * prior - batch.log_odds,
            log_likelihood_ratio=-batch.log_likelihood_ratio,
            parameters=self.exchanged(batch.parameters),
        )


def prior_log_odds(label_prior: float) -> float:
    """The log-odds of label 1 before any point is seen, in nats.

    **Arguments:** `label_prior`: The probability of label 1, above 0 and below 1.
    """
    if not 0 < label_prior < 1:
        raise ValueError(f"label_prior must be above 0 and below 1, got {label_prior}")
    return math.log(label_prior / (1 - label_prior))


def _cross_entropy(
    logit: Float[Array, ""], label: Float[Array, ""]
) -> Float[Array, ""]:
    return jax.nn.softplus(logit) - label * logit
