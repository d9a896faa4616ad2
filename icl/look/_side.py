"""A run as a page shows it: what it answers at a checkpoint, and its curves."""

import contextlib
import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from opto.view import about, Explorer, reply

from .. import measures
from ..report.grouping import Inapplicable
from ..report.patterns import token_texts
from ..report.subject import Subject
from ..tasks.exemplar_label import ExemplarLabelTask


# The metric is the mean over this many sequences.
_MOST_SEQUENCES = 256
_MODELS_IN_MEMORY = 32


class Side:
    """One of the runs of a page."""

    def __init__(self, subject: Subject):
        """**Raises:** `ValueError` for a run without sequences or without heads."""
        self.subject, self.trained = subject, subject.trained
        self.name = self.trained.run.path.resolve().name
        if not self.trained.run.checkpoints:
            raise ValueError(f"{self.trained.run.path} has no checkpoints to look at")
        self.edits = self.trained.edits if subject.edits is None else subject.edits
        self._explorers: dict[str, Explorer] = {}
        self._model = functools.lru_cache(_MODELS_IN_MEMORY)(self._loaded)
        self.explorer(subject.data)

    @property
    def sets(self) -> list[str]:
        """The sets that can be looked at."""
        return list(dict.fromkeys([self.subject.data, *self.trained.evaluations]))

    def explorer(self, name: str) -> Explorer:
        """What answers for a set; raises `ValueError` for one that does not exist."""
        if name not in self._explorers:
            self._explorers[name] = self._built(name)
        return self._explorers[name]

    def about(self) -> dict[str, Any]:
        """What the page must know before the first answer."""
        explorer = self.explorer(self.subject.data)
        return about(explorer) | {
            "name": self.name,
            "sets": self.sets,
            "checkpoints": self.trained.run.checkpoints,
            "chosen": [*range(len(self.edits))],
            "charts": [*self._charts()],
        }

    def answer(self, message: Any) -> dict[str, Any]:
        """The answer to a choice at a checkpoint, or what is wrong with it."""
        try:
            explorer = self.explorer(str(message["set"]))
            model = self._model(self.trained.run.find(int(message["checkpoint"])))
        except (KeyError, TypeError):
            return {"wrong": "a question has a set, a checkpoint and a choice"}
        except ValueError as error:
            return {"wrong": str(error)}
        return reply(explorer, message.get("choice"), model)

    def _loaded(self, checkpoint: int) -> Any:
        arrays = self.trained.run.load(self.trained.model, checkpoint)
        return eqx.combine(jax.tree.map(jnp.asarray, arrays), self.trained.model)

    def _built(self, name: str) -> Explorer:
        every = dataclasses.replace(self.subject, data=name).batch
        batch = jax.tree.map(lambda x: x[:_MOST_SEQUENCES], every)
        task = self.trained.task

        def loss(outputs: Any, *inputs: Any) -> Any:
            if isinstance(task, ExemplarLabelTask):
                outputs = outputs[:, -1]  # Only the query's logits count.
            return jnp.nanmean(jax.vmap(task.metrics)(outputs, batch)["loss"])

        inputs, texts = task.inputs(batch), token_texts(self.subject, batch)
        model, edits = self.trained.model, self.edits
        return Explorer(model, *inputs, metric=loss, edits=edits, tokens=texts)

    def _charts(self) -> Any:
        curves, unit = self.subject.curves, self.trained.run.seen
        for metric in ("loss", "accuracy", "in_context_accuracy"):
            lines = {
                name: _numbers(found[metric])
                for name, found in curves.numbers.items()
                if metric in found
            }
            if lines:
                label = self.subject.label(metric)
                yield _chart(label, unit, _numbers(curves.events), lines)
        asked = {
            "induction strength": measures.induction_strength(),
            "previous-token strength": measures.previous_token_strength(),
        }
        for label, measure in asked.items():
            with contextlib.suppress(Inapplicable, ValueError):
                found = self.subject.replay({"x": measure}, at_most=_MOST_SEQUENCES)
                values = np.asarray(found["x"])
                lines = {
                    f"{layer}:{head}": _numbers(values[:, layer, head])
                    for layer, head in np.ndindex(values.shape[1:])
                    if not np.isnan(values[:, layer, head]).all()
                }
                yield _chart(label, unit, _numbers(found.sequences), lines)


def _chart(label: str, unit: str, at: list, lines: dict[str, list]) -> dict[str, Any]:
    return {"label": label, "unit": unit, "at": at, "lines": lines}


def _numbers(values: Any) -> list[float | None]:
    """Numbers for JSON, which has no NaN."""
    return [float(x) if np.isfinite(x) else None for x in np.asarray(values)]
