"""An experiment on exemplar-label sequences: one value that rebuilds a run."""

import dataclasses
import functools
import os
import zlib
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

import opto

from ._grafts import last_checkpoint, pinned, read_edits, sources, with_models
from ._ranked import find_heads, FoundHeads, kept_heads, RankedHeads, with_heads
from ._start import Start as Start
from .data import absolute, digest, LowRankClasses, Source
from .models import ExemplarLabelModel, TransformerConfig
from .optimizers import Adam, Optimizer
from .plugins import made_with
from .protocols import EvaluationConfig, ModelConfig, TaskConfig
from .runs import Run
from .schedules import positive
from .tasks import (
    batch,
    Context,
    Distribution,
    ExemplarChoice,
    ExemplarLabel,
    ExemplarLabelTask,
    Labels,
    load_sequences,
    Mixture,
    Part,
    Relabel,
    Sequence,
)
from .train import check_seed, check_set_names, Member, Training


@dataclasses.dataclass(frozen=True)
class EvaluationSet(EvaluationConfig):
    """Sequences drawn once from the evaluation seed; `None` is as in training."""

    size: int = 500
    """Number of sequences."""
    classes: Part | None = None
    """Which part of the classes they are drawn from."""
    exemplars: Part | None = None
    """Which part of each class's exemplars."""
    relabelling: Part | None = None
    """Which part of the label pairs, when classes are relabelled."""
    context: Context | Mixture | None = None
    """Which classes appear, and where."""
    distribution: Distribution | None = None
    """Of the query's class over the split."""
    exemplar_choice: ExemplarChoice | None = None
    """Which exemplar of its class each position shows."""
    labels: Labels | None = None
    """What each class is called."""
    noise: float | None = None
    """Standard deviation of the noise on each example."""

    def __post_init__(self):
        positive("size", self.size)

    def of(self, task: ExemplarLabel) -> ExemplarLabel:
        """The settings of this set's sampler: the task's, where this has `None`."""
        names = {field.name for field in dataclasses.fields(self)}
        names -= {"size", "relabelling"}
        own = {name: getattr(self, name) for name in names}
        changed = {name: value for name, value in own.items() if value is not None}
        task = dataclasses.replace(task, **changed)
        if self.relabelling is None:
            return task
        if not isinstance(task.labels, Relabel):
            kind = type(task.labels).__name__
            raise ValueError(f"relabelling= needs Relabel labels, got {kind}")
        labels = dataclasses.replace(task.labels, part=self.relabelling)
        return dataclasses.replace(task, labels=labels)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything that a run is made of."""

    task: TaskConfig
    """The sampler of training sequences."""
    data: Source = LowRankClasses()
    """Where the classes come from; see `icl.data`."""
    model: ModelConfig = TransformerConfig()
    """The transformer."""
    optimizer: Optimizer = Adam()
    """With its learning rate."""
    training: Training = Training()
    """How long, and when to look."""
    evaluations: dict[str, EvaluationConfig] = dataclasses.field(default_factory=dict)
    """The sets it is evaluated on, by name."""
    edits: tuple[str, ...] = ()
    """Edits in force throughout, as text: `Zero('blocks.1.attn.z', head=3)`."""
    heads: dict[str, RankedHeads] = dataclasses.field(default_factory=dict)
    """Heads that the edits name, `head={induction}`: measured on another run."""
    start: Start | None = None
    """The weights to begin from; `None` draws them from `init_seed`."""
    init_seed: int = 5
    """Of the initial weights."""
    train_seed: int = 0
    """Of the batches: batch n is a function of this seed and n alone."""
    eval_seed: int = 1
    """Of the evaluation sets."""

    def __post_init__(self):
        for name in ("init_seed", "train_seed", "eval_seed"):
            check_seed(name, getattr(self, name))
        check_set_names(self.evaluations)

    def build(self) -> Member:
        """The initial model with its task, edits and evaluation sets.

        **Raises:** `ValueError` for whatever in the config cannot be.
        """
        return self.member(jnp.asarray(self.data.load()))

    def pinned(self, last: Callable[[str], int] = last_checkpoint) -> "Experiment":
        """The same with absolute paths and numbers for the last checkpoints.

        A run is read from other places than it was started from.

        **Arguments:**

        - `last`: The last checkpoint of the run at an absolute path; as it is now if
            this is not given.

        **Raises:** `ValueError` if a run that it reads is not there.
        """
        last = functools.cache(last)  # The same wherever a run is named.
        return dataclasses.replace(
            self,
            data=absolute(self.data),
            edits=pinned(self.edits, last),
            heads={name: ranked.pinned(last) for name, ranked in self.heads.items()},
            start=self.start and self.start.pinned(last),
        )

    def sources(self) -> list[tuple[str, int]]:
        """The runs whose checkpoints it reads: their folders, and which checkpoint.

        A checkpoint is the sequences seen there, -1 the last.
        """
        start = [] if self.start is None else [(self.start.run, self.start.checkpoint)]
        heads = [(ranked.run, ranked.checkpoint) for ranked in self.heads.values()]
        return list(dict.fromkeys([*start, *sources(self.edits), *heads]))

    def with_heads(self, heads: Mapping[str, tuple[int, ...]]) -> "Experiment":
        """The same with these heads in the place of their names; `heads` is empty then.

        **Raises:** `ValueError` for edits that name others.
        """
        edits = with_heads(self.edits, heads)
        return dataclasses.replace(self, edits=edits, heads={})

    def with_any_heads(self) -> "Experiment":
        """The same with some heads, as many as are named: of the same shape.

        For those who need that before the runs are there on which they are measured.
        """
        each = self.model.num_heads
        count = each if isinstance(each, int) else min(each)
        return self.with_heads(
            {
                name: tuple(rank % count for rank in ranked.ranks)
                for name, ranked in self.heads.items()
            }
        )

    def member(
        self, data: Array, heads: Mapping[str, FoundHeads] | None = None
    ) -> Member:
        """As `build`, on data that were loaded before.

        **Arguments:**

        - `heads`: Those that were found before; measured now if this is not given.
        """
        task = self.task.build(data)
        model, edits = self._model(task), self._edits(heads)
        if self.start is not None:
            model = self.start.into(model)
        # A misspelt site is an error now, not after the compilation.
        opto.check(edits, opto.sites(model, *example_inputs(task)))
        edits = with_models(edits, lambda graft: graft.model)
        samplers = {
            name: setting.of(self.task).build(task.data)
            for name, setting in self.evaluations.items()
        }
        for name, sampler in samplers.items():
            _check_fits(f"evaluation set {name!r}", sampler, model, task.num_labels)
        sets = self._draw(samplers)
        return Member(model, task, self.optimizer, self.train_seed, edits, sets)

    def _model(self, task: ExemplarLabelTask) -> ExemplarLabelModel:
        dim = task.data.shape[-1] if task.data.ndim == 3 else None
        count = int(task.data.max()) + 1 if dim is None else None
        build = _builder(self.model, task.num_labels, dim, count)
        return build(_stream(self.init_seed, "initialisation"))

    def _edits(
        self, heads: Mapping[str, FoundHeads] | None
    ) -> tuple[opto.AbstractEdit, ...]:
        self.with_any_heads()  # A misspelt name is said before others' runs are read.
        heads = find_heads(self.heads) if heads is None else heads
        chosen = {name: found.heads for name, found in heads.items()}
        return read_edits(self.with_heads(chosen).edits)

    def _draw(self, samplers: Mapping[str, ExemplarLabelTask]) -> dict[str, Sequence]:
        draw = eqx.filter_jit(batch)
        base = _stream(self.eval_seed, "evaluation")
        return {
            name: draw(
                sampler,
                self.evaluations[name].size,
                key=jax.random.fold_in(base, zlib.crc32(name.encode())),
            )
            for name, sampler in samplers.items()
        }


@functools.lru_cache
def _builder(
    config: TransformerConfig, labels: int, dim: int | None, exemplars: int | None
) -> Callable[..., ExemplarLabelModel]:
    """Makes models; compiled as one, operation by operation it takes seconds."""
    return eqx.filter_jit(
        lambda key: config.build(labels, dim=dim, num_exemplars=exemplars, key=key)
    )


def _check_fits(
    what: str, task: ExemplarLabelTask, model: ExemplarLabelModel, num_labels: int
) -> None:
    """Raises `ValueError` for a task whose sequences the model cannot take."""
    if task.num_labels > num_labels:
        got = f"{task.num_labels} labels for a model of {num_labels}"
        raise ValueError(f"{what} has {got}")
    try:
        example = jax.eval_shape(lambda: task.sample(key=jax.random.key(0)))
        eqx.filter_eval_shape(task.forward, model, example)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _stream(seed: int, purpose: str) -> PRNGKeyArray:
    """A key of its own for each purpose: equal seeds do not make equal draws.

    `fold_in(key, n)` is also the key of training step n, and `split(key)[n]`.
    """
    # Beyond any step, which are int32.
    tag = 2**31 + zlib.crc32(purpose.encode()) % 2**31
    return jax.random.fold_in(jax.random.key(seed), np.uint32(tag))


def example_inputs(task: ExemplarLabelTask) -> tuple[jax.ShapeDtypeStruct, ...]:
    """The shapes and dtypes of a model's inputs, for one example."""
    key = jax.random.key(0)
    return jax.eval_shape(lambda: task.inputs(task.sample(key=key)))


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run that was read back, ready to be probed.

    `task.inputs(batch)` are a model's inputs, `evaluations[name]` a batch. `heads` are
    those that its edits name, as they were found.
    """

    run: Run
    experiment: Experiment
    model: ExemplarLabelModel
    task: ExemplarLabelTask
    edits: tuple[opto.AbstractEdit, ...]
    evaluations: Mapping[str, Sequence]
    heads: Mapping[str, FoundHeads] = dataclasses.field(default_factory=dict)


def load(path: str | os.PathLike, checkpoint: int = -1) -> Trained:
    """Reads a run: its model at a checkpoint (sequences seen; -1 is the last).

    **Raises:** `ValueError` if there is no run, no such checkpoint, or the data's file
    is not there or not what it was.
    """
    run = Run(path)
    experiment = run.read(Experiment)
    task = experiment.task.build(jnp.asarray(experiment.data.load()))
    run.check_data(digest(experiment.data))
    saved = run.path / "eval_data.h5"
    sets = load_sequences(saved) if saved.exists() else {}
    model = run.load(experiment._model(task), checkpoint)
    heads = kept_heads(run.path, experiment.heads)
    heads = find_heads(experiment.heads) if heads is None else heads
    with made_with(run.plugins):
        edits = experiment._edits(heads)
    return Trained(run, experiment, model, task, edits, sets, heads)
