"""The subject of figures and reports: a run on some sequences, under some edits."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import opto
from opto.hints import did_you_mean

from .. import measures
from ..batches import first_of
from ..edits.tokens import token_names
from ..experiments import Trained
from ..experiments.curves import Curves, curves
from ..experiments.events import first_below
from ..experiments.sets import find_set
from ..replaying import Replay, replay
from ..tasks.exemplar_label.dense import GroupedSequences
from .grouping import GROUPS, Inapplicable, missing_field


@dataclasses.dataclass(frozen=True)
class Subject:
    """The subject of a figure: a run on some sequences, under some edits.

    **Fields:**

    - `data`: The name of an evaluation set, `"dense"` or `"dense:N"`; empty for no
        sequences.
    - `edits`: The edits to apply; `None` takes those of training.
    - `metric`, `by`: For kinds that draw a metric: the metric, and what it is grouped
        by. If `by` is empty and sequences have labels, by the position of the answer.
    - `checkpoint`: For kinds that draw a single checkpoint; -1 is the last.
    - `threshold`: The loss that defines the phase change, in the unit of the loss.
    """

    trained: Trained
    data: str
    edits: tuple[opto.toolkit.AbstractEdit, ...] | None = None
    metric: str = "loss"
    by: str = ""
    checkpoint: int = -1
    threshold: float | None = None

    @functools.cached_property
    def _sequences(self) -> tuple[Any, dict[str, np.ndarray]]:
        """The sequences, and the groups that come with them."""
        if not self.data:
            raise Inapplicable(f"{self.trained.run.path} has no evaluation sets")
        every = find_set(self.trained, self.data)
        if not isinstance(every, GroupedSequences):
            return every, {}
        own = {name.replace("_", "-"): x for name, x in every.groups.items()}
        return every.sequences, own

    @property
    def batch(self) -> Any:
        """The sequences; raises `ValueError` if the run has none."""
        return self._sequences[0]

    def groups(self, name: str) -> np.ndarray:
        """The group of each sequence, by a name of `GROUPS` or of the dense set."""
        own = self._sequences[1]
        if name in own:
            return own[name]
        if name in GROUPS:
            if field := missing_field(name, self.batch):
                kind = type(self.trained.experiment.task).__name__
                wanted = f"grouping by {name} needs {field}"
                raise Inapplicable(f"{wanted}; sequences of {kind} do not have them")
            return GROUPS[name][0](self.batch)
        known = [*GROUPS, *own]
        hint = did_you_mean(name, known, cutoff=0.4) or f"; known: {', '.join(known)}"
        raise ValueError(f"no group {name!r}{hint}")

    @functools.cached_property
    def sites(self) -> opto.toolkit.Sites:
        """The sites that the model names on a sequence."""
        first = first_of(self.batch)
        return opto.sites(self.trained.task.forward, self.trained.model, first)

    @property
    def patterns(self) -> list[opto.toolkit.Site]:
        """The sites of the model's attention patterns, layer by layer."""
        return [s for s in self.sites.values() if s.name.endswith(".attn.pattern")]

    @property
    def token_names(self) -> list[str]:
        """The name of the token at each position; numbers if the model has no names."""
        trained = self.trained
        names = token_names(trained.model, trained.task, self.batch)
        if names:
            return names
        rows = [site.shape[-2] for site in self.patterns]
        return [*map(str, range(max(rows, default=0)))]

    def label(self, metric: str) -> str:
        """The name of a metric in words, with its unit."""
        words, unit = metric.replace("_", " "), self.trained.experiment.task.loss_unit
        return f"{words} ({unit})" if unit and metric.endswith("loss") else words

    @functools.cached_property
    def curves(self) -> Curves:
        """The learning curves of all sets, from the log."""
        return curves(self.trained.run)

    def curve(self, metric: str) -> np.ndarray | None:
        """The curve of a metric of the set; `None` if the log does not have it."""
        return self.curves.numbers.get(self.data, {}).get(metric)

    @property
    def phase_change(self) -> float | None:
        """Sequences seen when the loss, under the edits, falls to the threshold.

        `None` without a threshold, or if the loss stays above it.
        """
        if self.threshold is None:
            return None
        logged = self.curve("loss")
        if self.edits is None and logged is not None:
            return first_below(self.curves.events, logged, self.threshold)
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
        """Takes measures at the checkpoints, on all or only the first sequences."""
        batch = jax.tree.map(lambda x: x[:at_most], self.batch)
        run, edits = self.trained, self.edits
        for measure in asked.values():
            if reason := measures.lacking(measure, self.sites, run.model):
                raise Inapplicable(reason)
        return replay(run, asked, data=batch, edits=edits, checkpoints=checkpoints)
