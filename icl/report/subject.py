"""What figures and the report are about: a run on some sequences, under some edits."""

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
    """What is drawn: a run on some sequences, under some edits.

    **Fields:**

    - `data`: The name of an evaluation set, `"dense"` or `"dense:N"`; empty for no
        sequences.
    - `edits`: In force; `None` is those of training.
    - `metric`, `by`: Of the kinds that draw a metric, and what it is grouped by; by
        the position of the answer if that is empty and sequences have labels.
    - `checkpoint`: Of the kinds that draw one; -1 is the last.
    - `threshold`: The loss at which the phase change is said to be, in its own unit.
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
        known = [*GROUPS, *own]
        hint = did_you_mean(name, known, cutoff=0.4) or f"; there is {', '.join(known)}"
        raise ValueError(f"no group {name!r}{hint}")

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

    @functools.cached_property
    def curves(self) -> Curves:
        """The learning curves of all sets, as the log has them."""
        return curves(self.trained.run)

    def curve(self, metric: str) -> np.ndarray | None:
        """That of a metric of the set; `None` if the log does not have it."""
        return self.curves.numbers.get(self.data, {}).get(metric)

    @property
    def phase_change(self) -> float | None:
        """Where the loss of the set, under the edits, falls to the threshold, if so."""
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
        """Measures over the run's checkpoints, of all or of the first sequences."""
        batch = jax.tree.map(lambda x: x[:at_most], self.batch)
        run, edits = self.trained, self.edits
        for measure in asked.values():
            if reason := measures.lacking(measure, self.sites, run.model):
                raise Inapplicable(reason)
        return replay(run, asked, data=batch, edits=edits, checkpoints=checkpoints)
