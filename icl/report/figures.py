"""Figures of a run, by kind, from its log or from a replay of its checkpoints."""

from collections.abc import Callable, Sequence

import numpy as np

import opto
from opto.hints import did_you_mean

from .. import measures, plots
from ..experiments.training_log import training_log
from ..plots import DrawnFigure
from ..summaries import CountedMean
from .grouping import GROUPS, Inapplicable, missing_field
from .subject import Subject


_QUERIES = 5  # How many tokens, the last ones, have a panel.


def learning(subject: Subject) -> DrawnFigure:
    """Loss and accuracy of every evaluation set, from the log."""
    if subject.edits is not None:
        raise Inapplicable("learning curves come from the log: leave out the edits")
    curves = subject.curves
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


def training(subject: Subject) -> DrawnFigure:
    """The loss of each step's batch, with ticks where a curriculum changes."""
    if subject.edits is not None:
        raise Inapplicable(
            "the training's loss comes from the log: leave out the edits"
        )
    trained = subject.trained
    found = training_log(trained, every=1)
    if not len(found["step"]):
        raise Inapplicable(f"{trained.run.path} has no steps in its log")
    sequences = found.pop("step") * trained.experiment.training.batch_size
    loss = found.pop("loss")
    # What is left are the numbers of the stage.
    moved = [np.diff(x) != 0 for x in found.values()]
    changed = np.any(moved, 0) if moved else np.zeros(len(loss) - 1, bool)
    label = f"{subject.label('loss')} of a batch"
    return plots.training_loss(sequences, loss, sequences[1:][changed], label=label)


_ACCURACIES = {
    "in_context_accuracy": "accuracy among labels in context",
    "accuracy": "accuracy",
}
"""The accuracies that learning curves can show beside the loss; the first one wins."""


def metric(subject: Subject) -> DrawnFigure:
    """A metric of each sequence, by group; or its mean at each position.

    A metric of the set as a whole is a single curve.
    """
    trained, name = subject.trained, subject.metric
    # To know the metrics of each sequence, the model must be traced.
    if trained.summaries.get(name) and name not in measures.metric_names(
        trained.task, trained.model
    ):
        return _of_the_set(subject)
    sequences, values = _metric(subject)
    if not np.isfinite(values).any():
        raise Inapplicable(f"metric {subject.metric!r} has no finite value")
    label = subject.label(subject.metric)
    if values.ndim == 3:
        means = _by_position(subject, values)
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


def _of_the_set(subject: Subject) -> DrawnFigure:
    """A metric of the set as a whole, from the log."""
    what = f"metric {subject.metric!r} is of the set as a whole"
    if subject.edits is not None:
        raise Inapplicable(f"{what} and comes from the log: leave out the edits")
    curve = subject.curve(subject.metric)
    if curve is None:
        raise Inapplicable(f"{what}, and {subject.data!r} is not in the log")
    if subject.by:
        raise Inapplicable(f"{what} and has no groups: leave out --by")
    return plots.traces(
        subject.curves.events,
        curve[:, None],
        label=subject.label(subject.metric),
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
    return plots.heads_over_time(
        found.sequences,
        {name: found[name] for name in asked},
        limits=(0, 1.02),
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
    """The mean induction strength of each layer's heads, and of the single heads."""
    found = subject.replay({"strength": measures.induction_strength()})
    return plots.average_strength(
        found.sequences, found["strength"], phase_change=subject.phase_change
    )


def previous_token(subject: Subject) -> DrawnFigure:
    """Each head's attention to the previous token, and its excess over uniform."""
    found = subject.replay(
        {
            "score": measures.previous_token_strength(),
            "above": measures.previous_token_excess(),
        }
    )
    return plots.heads_over_time(
        found.sequences,
        {"as it is": found["score"], "above uniform attention": found["above"]},
        label="previous-token\nattention",
        phase_change=subject.phase_change,
    )


def tokens(subject: Subject) -> DrawnFigure:
    """The mean attention from the last tokens to each token over training, by layer."""
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
    """Every head's mean attention from each token to each token, at a checkpoint."""
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
    return plots.traces(
        found.sequences,
        found["biases"],
        groups=np.arange(found["biases"].shape[1]),
        label="output bias (nats)",
        by="label",
        trace="label",
        phase_change=subject.phase_change,
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
    "training": training,
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
"""The kinds of figures of a run, by name."""


def kinds_of(names: Sequence[str]) -> list[str]:
    """The kinds of figures that are named, each once; `all` gives all of them.

    **Raises:** `ValueError` if a name is not a kind of figure.
    """
    for name in names:
        if name != "all" and name not in KINDS:
            hint = did_you_mean(name, [*KINDS, "all"], cutoff=0.4)
            there = f"; known: {', '.join(KINDS)}, all"
            raise ValueError(f"no figure {name!r}{hint or there}")
    return [*KINDS] if "all" in names else list(dict.fromkeys(names))


def _described(by: str) -> str:
    return GROUPS[by][1] if by in GROUPS else by.replace("-", " ")


def _by_position(subject: Subject, values: np.ndarray) -> np.ndarray:
    """The means over sequences at each event, `[event, position]`.

    Where NaN marks positions that do not count, they are left out, as in the summary.
    """
    summary = subject.trained.summaries.get(subject.metric)
    if not isinstance(summary, CountedMean):
        return values.mean(1)
    # A model that diverged gives NaN in every sequence, so its loss is not needed.
    finite = {"loss": np.zeros(1)}
    return np.stack([summary({**finite, subject.metric: rows}) for rows in values])


def _metric(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """A metric of each sequence from the log or a replay: `[checkpoint, sequence]`.

    A metric by position has a third axis.
    """
    logged = subject.trained.run.log.evaluations.get(subject.data, {})
    if subject.edits is None and subject.metric in logged:
        return subject.trained.run.log.events, logged[subject.metric]
    each = measures.task_metric(
        subject.trained.task, subject.metric, over=measures.EachSequence()
    )
    found = subject.replay({"metric": each})
    return found.sequences, found["metric"]
