"""Figures of a run: each kind from its log or from a replay of its checkpoints."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import opto

from .. import measures, plots
from ..batches import first_of
from ..edits.tokens import token_names
from ..experiments import Trained
from ..experiments.curves import curves as learning_curves_of
from ..experiments.events import first_below
from ..experiments.sets import named_dense_set, unknown
from ..plots import DrawnFigure
from ..replay import Replay, replay
from ..summaries import over_events
from .grouping import GROUPS, Inapplicable, missing_field


_QUERIES = 5  # The last tokens, each of which has a panel.


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is drawn: a run on some sequences, under some edits.

    **Fields:**

    - `data`: The name of an evaluation set, `"dense"` or `"dense:N"`; empty for no
        sequences.
    - `edits`: In force; `None` is those of training.
    - `metric`, `by`: Of the kinds that draw a metric, and what it is grouped by; by
        the position of the answer if that is empty and sequences have labels.
    - `checkpoint`: Of the kinds that draw one; -1 is the last.
    - `threshold`: The loss, in nats, at which the phase change is said to be.
    """

    trained: Trained
    data: str
    edits: tuple[opto.AbstractEdit, ...] | None = None
    metric: str = "loss"
    by: str = ""
    checkpoint: int = -1
    threshold: float | None = None

    @functools.cached_property
    def _sequences(self) -> tuple[Any, dict[str, np.ndarray]]:
        """The sequences, and groups that come with them."""
        if not self.data:
            raise Inapplicable(f"{self.trained.run.path} has no evaluation sets")
        every = named_dense_set(self.trained, self.data)
        if every is None:
            return self.trained.evaluations[self.data], {}
        own = {name.replace("_", "-"): x for name, x in every.groups.items()}
        return every.sequences, own

    @property
    def batch(self) -> Any:
        """The sequences; raises `ValueError` if the run has none."""
        return self._sequences[0]

    def groups(self, name: str) -> np.ndarray:
        """The group of each sequence, by a name of `GROUPS` or of the dense set's."""
        own = self._sequences[1]
        if name in own:
            return own[name]
        if name in GROUPS:
            if field := missing_field(name, self.batch):
                kind = type(self.trained.experiment.task).__name__
                wanted = f"grouping by {name} needs {field}, which the sequences of"
                raise Inapplicable(f"{wanted} {kind} do not have")
            return GROUPS[name][0](self.batch)
        raise ValueError(unknown("group", name, [*GROUPS, *own]))

    @functools.cached_property
    def sites(self) -> opto.Sites:
        """What the model names on a sequence."""
        first = first_of(self.batch)
        return opto.sites(self.trained.task.forward, self.trained.model, first)

    @property
    def patterns(self) -> list[opto.Site]:
        """Where its model names attention patterns, layer by layer."""
        return [s for s in self.sites.values() if s.name.endswith(".attn.pattern")]

    @property
    def token_names(self) -> list[str]:
        """What stands at each position; numbers where the model does not say it."""
        trained = self.trained
        names = token_names(trained.model, trained.task, self.batch)
        if names:
            return names
        rows = [site.shape[-2] for site in self.patterns]
        return [*map(str, range(max(rows, default=0)))]

    def label(self, metric: str) -> str:
        """A metric in words, with its unit."""
        words, unit = metric.replace("_", " "), self.trained.experiment.task.loss_unit
        return f"{words} ({unit})" if unit and metric.endswith("loss") else words

    @property
    def phase_change(self) -> float | None:
        """Where the loss of the set, under the edits, falls to the threshold, if so."""
        if self.threshold is None:
            return None
        log = self.trained.run.log
        loss = log.evaluations.get(self.data, {}).get("loss")
        if self.edits is None and loss is not None:
            mean = over_events({"loss": loss}, {})["loss"]
            return first_below(log.events, mean, self.threshold)
        loss = measures.task_metric(self.trained.task, "loss")
        found = self.replay({"loss": loss})
        return first_below(found.sequences, found["loss"], self.threshold)

    def replay(
        self,
        asked: Mapping[str, Any],
        *,
        checkpoints: Sequence[int] | None = None,
        at_most: int | None = None,
    ) -> Replay:
        """Measures over the run's checkpoints, of all or of the first sequences."""
        batch = jax.tree.map(lambda x: x[:at_most], self.batch)
        run, edits = self.trained, self.edits
        for measure in asked.values():
            if reason := measures.lacking(measure, self.sites, run.model):
                raise Inapplicable(reason)
        return replay(run, asked, data=batch, edits=edits, checkpoints=checkpoints)


def learning(subject: Subject) -> DrawnFigure:
    """Loss and accuracy of every evaluation set, from the log."""
    if subject.edits is not None:
        raise Inapplicable("learning curves are logged: leave out the edits")
    curves = learning_curves_of(subject.trained.run)
    if not curves.numbers:
        raise Inapplicable(f"{subject.trained.run.path} has no evaluations in its log")
    each = next(iter(curves.numbers.values()))
    accuracy = next((n for n in _ACCURACIES if n in each), "")
    unit = subject.trained.experiment.task.loss_unit
    return plots.learning_curves(
        curves.events,
        {name: found["loss"] for name, found in curves.numbers.items()},
        {name: x[accuracy] for name, x in curves.numbers.items() if accuracy},
        loss_label=subject.label("loss"),
        accuracy_label=_ACCURACIES.get(accuracy, ""),
        threshold_unit=unit,
        phase_change=subject.phase_change,
        threshold=subject.threshold,
    )


_ACCURACIES = {
    "in_context_accuracy": "accuracy among labels in context",
    "accuracy": "accuracy",
}
"""What the learning curves show beside the loss, the first that there is."""


def metric(subject: Subject) -> DrawnFigure:
    """A metric of each sequence, by group; or one by position, at each position."""
    sequences, values = _metric(subject)
    label = subject.label(subject.metric)
    if values.ndim == 3:
        means = values.mean(1)
        return plots.traces(
            sequences,
            means,
            groups=np.arange(means.shape[1]),
            label=f"{label}, mean over sequences",
            by="position in context",
            trace="position",
            phase_change=subject.phase_change,
        )
    default = "" if missing_field("position", subject.batch) else "position"
    by = subject.by or default
    return plots.traces(
        sequences,
        values,
        groups=subject.groups(by) if by else None,
        label=label,
        by=_described(by),
        phase_change=subject.phase_change,
    )


def attention(subject: Subject) -> DrawnFigure:
    """What the query attends to: the correct, incorrect and all labels."""
    asked = {
        "to the correct label": measures.query_attention("correct label"),
        "to incorrect labels": measures.query_attention("incorrect label"),
        "to any label": measures.query_attention("label"),
    }
    found = subject.replay(asked)
    return plots.attention_over_time(
        found.sequences,
        {name: found[name] for name in asked},
        phase_change=subject.phase_change,
    )


def induction(subject: Subject) -> DrawnFigure:
    """The induction strength of each head."""
    found = subject.replay({"strength": measures.induction_strength()})
    return plots.heads_over_time(
        found.sequences,
        found["strength"],
        label="induction strength",
        phase_change=subject.phase_change,
    )


def average_induction(subject: Subject) -> DrawnFigure:
    """The mean induction strength of each layer's heads, over the single heads."""
    found = subject.replay({"strength": measures.induction_strength()})
    return plots.average_strength(
        found.sequences, found["strength"], phase_change=subject.phase_change
    )


def previous_token(subject: Subject) -> DrawnFigure:
    """Each head's attention to the previous token, as it is and above uniform."""
    found = subject.replay(
        {
            "score": measures.previous_token_strength(),
            "above": measures.previous_token_excess(),
        }
    )
    return plots.previous_token_scores(
        found.sequences,
        found["score"],
        found["above"],
        phase_change=subject.phase_change,
    )


def tokens(subject: Subject) -> DrawnFigure:
    """The mean attention from each token to each, in every layer, over training."""
    found = subject.replay({"attention": measures.attention_patterns()})
    names = subject.token_names
    first = max(1, len(names) - _QUERIES)
    return plots.token_pairs(
        found.sequences,
        found["attention"],
        names,
        queries=range(first, len(names)),
        phase_change=subject.phase_change,
    )


def maps(subject: Subject) -> DrawnFigure:
    """The mean attention from each token to each, of every head at a checkpoint."""
    asked = {"attention": measures.attention_patterns()}
    found = subject.replay(asked, checkpoints=[subject.checkpoint])
    names = subject.token_names
    return plots.token_maps(found["attention"][0], names)


def biases(subject: Subject) -> DrawnFigure:
    """The bias of each output."""
    grafts = any(isinstance(edit, opto.Graft) for edit in subject.trained.edits)
    if subject.edits is not None or grafts:
        reason = "a graft replaces them" if grafts else "edits do not change them"
        raise Inapplicable(f"biases are the run's own weights, and {reason}")
    found = subject.replay({"biases": measures.unembedding_biases()})
    return plots.output_biases(
        found.sequences, found["biases"], phase_change=subject.phase_change
    )


def similarity(subject: Subject) -> DrawnFigure:
    """A metric's mean over training against how similar the exemplars are."""
    sequences, values = _metric(subject)
    return plots.integral_by_similarity(
        sequences,
        values if values.ndim == 2 else values.mean(2),
        subject.groups("similarity"),
        label=subject.label(subject.metric),
    )


KINDS: dict[str, Callable[[Subject], DrawnFigure]] = {
    "learning": learning,
    "metric": metric,
    "attention": attention,
    "induction": induction,
    "average-induction": average_induction,
    "previous-token": previous_token,
    "tokens": tokens,
    "maps": maps,
    "biases": biases,
    "similarity": similarity,
}
"""What can be drawn of a run, by name."""


def kinds_of(names: Sequence[str]) -> list[str]:
    """The kinds of some names, each once; `all` is all of them.

    **Raises:** `ValueError` for a name that is none.
    """
    if not names:
        known = ", ".join(KINDS)
        raise ValueError(f"plot needs what to draw after the run: {known}, all")
    for name in names:
        if name != "all" and name not in KINDS:
            raise ValueError(unknown("figure", name, [*KINDS, "all"]))
    return [*KINDS] if "all" in names else list(dict.fromkeys(names))


def _described(by: str) -> str:
    return GROUPS[by][1] if by in GROUPS else by.replace("-", " ")


def _metric(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """A metric of every sequence, `[checkpoint, sequence]`, logged or replayed."""
    logged = subject.trained.run.log.evaluations.get(subject.data, {})
    if subject.edits is None and subject.metric in logged:
        return subject.trained.run.log.events, logged[subject.metric]
    each = measures.task_metric(
        subject.trained.task, subject.metric, over=measures.EachSequence()
    )
    found = subject.replay({"metric": each})
    return found.sequences, found["metric"]
