"""An experiment: one value that rebuilds a run."""

import dataclasses
import functools
import os
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

import opto

from ..batches import batch, example_of, load_batches
from ..checks import check_seed
from ..data import absolute, digest, Source
from ..edits.donors import Donor, register_reader
from ..edits.grafts import (
    check_grafts,
    last_checkpoint_at,
    pinned,
    read_edits,
    sources,
    with_models,
)
from ..edits.ranked import (
    FoundHeads,
    kept_heads,
    measured_heads,
    RankedHeads,
    with_heads,
)
from ..models import TransformerConfig
from ..plugins import made_with
from ..protocols import (
    EvaluationConfig,
    ExperimentTask,
    Interface,
    ModelConfig,
    Summary,
    TaskConfig,
    TaskSet,
)
from ..runs import Run
from ..training import (
    check_set_names,
    expected_files,
    last_checkpoint,
    Member,
    Training,
)
from ..training.optimizers import Adam, Optimizer
from ._fits import check_scores, check_task
from ._start_weights import Start


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything that a run is made of."""

    task: TaskConfig
    """The sampler of training sequences."""
    data: Source | None = None
    """The source of the classes, see `icl.data`. `None` uses the task's default source,
    or none for a task that draws its own data."""
    model: ModelConfig = TransformerConfig()
    """The model to train."""
    optimizer: Optimizer = Adam()
    """The optimizer with its learning rate. The default rate, 1e-5, is small: it is
    for a million sequences. A run of a few hundred steps needs a larger one."""
    training: Training = Training()
    """How long to train, and when to evaluate and save."""
    evaluations: dict[str, EvaluationConfig] = dataclasses.field(default_factory=dict)
    """The evaluation sets by name."""
    edits: tuple[str, ...] = ()
    """Edits during the whole training, as text: `Zero('blocks.1.attn.z', head=3)`."""
    heads: dict[str, RankedHeads] = dataclasses.field(default_factory=dict)
    """Heads that the edits name, `head={induction}`; measured on another run."""
    freeze: tuple[str, ...] = ()
    """Weights that training leaves as they are, by path: `blocks.*.attn.query`. See
    `icl.training.freezing`."""
    start: Start | None = None
    """The weights to start from; `None` draws them from `init_seed`."""
    init_seed: int = 5
    """The seed of the initial weights."""
    train_seed: int = 0
    """The seed of the batches: batch n is a function of only this seed and n."""
    eval_seed: int = 1
    """The seed of the evaluation sets."""

    def __post_init__(self):
        if isinstance(self.edits, str):
            raise ValueError(f"edits must be a tuple: write ({self.edits!r},)")
        for edit in self.edits:
            if isinstance(edit, opto.toolkit.AbstractEdit):
                wanted = f"each of edits must be a text: write {repr(edit)!r}"
                raise ValueError(f"{wanted}, which is edit.text()")
        own = self.task.source
        if self.data is not None and own is None:
            kind, got = type(self.task).__name__, type(self.data).__name__
            raise ValueError(f"data must be None: {kind} draws its own, got {got}")
        object.__setattr__(self, "data", self.data or own)
        for name in ("init_seed", "train_seed", "eval_seed"):
            check_seed(name, getattr(self, name))
        check_set_names(self.evaluations)

    def build(self) -> Member:
        """The initial model with its task, edits and evaluation sets.

        **Raises:** `ValueError` for anything impossible in the config.
        """
        return self.member(self.load_data())

    def load_data(self) -> Array | None:
        """The classes; `None` for a task that draws its own data."""
        return None if self.data is None else jnp.asarray(self.data.load())

    def pinned(self, last: Callable[[str], int] = last_checkpoint_at) -> "Experiment":
        """The same with absolute paths, and with numbers for the last checkpoints.

        A run may be read from another folder than the one it was started in.

        **Arguments:**

        - `last`: Gives the last checkpoint of the run at an absolute path; the default
            looks at the run now.

        **Raises:** `ValueError` if a run that it reads does not exist.
        """
        last = functools.cache(last)  # The same number wherever a run is named.
        return dataclasses.replace(
            self,
            data=self.data and absolute(self.data),
            edits=pinned(self.edits, last),
            heads={name: ranked.pinned(last) for name, ranked in self.heads.items()},
            start=self.start and self.start.pinned(last),
        )

    def sources(self) -> list[tuple[str, int]]:
        """The runs whose checkpoints it reads: their folders and checkpoints.

        A checkpoint is a number of sequences seen; -1 is the last.
        """
        start = [] if self.start is None else [(self.start.run, self.start.checkpoint)]
        heads = [(ranked.run, ranked.checkpoint) for ranked in self.heads.values()]
        return list(dict.fromkeys([*start, *sources(self.edits), *heads]))

    def with_heads(self, heads: Mapping[str, tuple[int, ...]]) -> "Experiment":
        """The same with these heads in place of their names; it has no `heads` left.

        **Raises:** `ValueError` for edits that name other heads.
        """
        edits = with_heads(self.edits, heads)
        return dataclasses.replace(self, edits=edits, heads={})

    def with_any_heads(self) -> "Experiment":
        """The same with arbitrary heads, as many as are named, so of the same shape.

        For code that needs it before the runs exist on which the heads are measured.
        """
        count = self._fewest_heads() if self.heads else 1
        return self.with_heads(
            {
                name: tuple(rank % count for rank in ranked.ranks)
                for name, ranked in self.heads.items()
            }
        )

    def _fewest_heads(self) -> int:
        each = getattr(self.model, "num_heads", None)
        if each is None:
            kind = type(self.model).__name__
            raise ValueError(f"heads are named, but a {kind} does not say how many")
        return each if isinstance(each, int) else min(each)

    def member(
        self,
        data: Array | None,
        heads: Mapping[str, FoundHeads] | None = None,
        run: Run | None = None,
    ) -> Member:
        """As `build`, but with data that were loaded before.

        **Arguments:**

        - `heads`: Heads that were found before; by default they are measured now.
        - `run`: The run to continue, whose evaluation sets are read. They are drawn if
            it has none, or for a new run (`None`).
        """
        task = self.task.build(data)
        example = example_of(task)
        check_task(task, self.task, example)
        model, edits = self._model(task), self._edits(heads)
        check_scores("the task", task, model, task, example)
        if self.start is not None:
            model = self.start.into(model)
        if run is not None:
            edits = _acting(edits)
        check_grafts(edits, task)
        edits = with_models(edits, lambda graft: graft.model)
        samplers = {
            name: setting.of(self.task).build(data)
            for name, setting in self.evaluations.items()
        }
        for name, sampler in samplers.items():
            check_scores(f"evaluation set {name!r}", sampler, model, task, example)
        return Member(
            model,
            task,
            self.optimizer,
            self.train_seed,
            edits,
            self._read_sets(run, task, data) or self._draw(samplers),
            self.task.summaries,
            self.freeze,
        )

    def _model(self, task: ExperimentTask) -> Any:
        try:
            build = _builder(self.model, task.interface)
            return build(_stream(self.init_seed, "initialisation"))
        except TypeError as error:  # For example, a plug-in's class lacks something.
            kind = type(self.model).__name__
            raise ValueError(f"model: {kind}: TypeError: {error}") from error

    def _edits(
        self, heads: Mapping[str, FoundHeads] | None
    ) -> tuple[opto.toolkit.AbstractEdit, ...]:
        self.with_any_heads()  # Report a misspelt name before other runs are read.
        heads = measured_heads(self.heads) if heads is None else heads
        chosen = {name: found.heads for name, found in heads.items()}
        return read_edits(self.with_heads(chosen).edits)

    def _read_sets(
        self, run: Run | None, task: ExperimentTask, data: Array | None
    ) -> dict[str, Any]:
        """The sets that a run began with, in the order of the config."""
        if run is None:
            return {}
        if not (file := run.path / "eval_data.h5").exists():
            return {}
        # Only a task of the set's own may draw examples with other fields.
        own = {
            name: example_of(setting.of(self.task).build(data))
            for name, setting in self.evaluations.items()
            if isinstance(setting, TaskSet) and setting.task is not None
        }
        owner, example = run.owner(file), example_of(task)
        sets = load_batches(file, example, owner=owner, examples=own)
        order = [*(n for n in self.evaluations if n in sets), *sets]
        return {name: sets[name] for name in order}

    def _draw(self, samplers: Mapping[str, ExperimentTask]) -> dict[str, Any]:
        draw = eqx.filter_jit(batch)
        base = _stream(self.eval_seed, "evaluation")
        return {
            name: draw(
                sampler,
                self.evaluations[name].size,
                key=jax.random.fold_in(base, zlib.crc32(name.encode())),
                # Like at the end of training, if a task has a curriculum.
                seen=self.training.seen_sequences,
            )
            for name, sampler in samplers.items()
        }


@functools.lru_cache
def _builder(
    config: ModelConfig, interface: Interface
) -> Callable[[PRNGKeyArray], eqx.Module]:
    """Makes models. Compiled as one function: operation by operation takes seconds."""
    build = lambda key: config.build(interface, key=key)
    return eqx.filter_jit(build)


def _stream(seed: int, purpose: str) -> PRNGKeyArray:
    """A separate key for each purpose, so equal seeds do not give equal draws.

    `fold_in(key, n)` is also the key of training step n, and equals `split(key)[n]`. So
    the number of a purpose is larger than any step.
    """
    # Larger than any step, because steps are int32.
    tag = 2**31 + zlib.crc32(purpose.encode()) % 2**31
    return jax.random.fold_in(jax.random.key(seed), np.uint32(tag))


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run that was read back, ready for analysis.

    `task.inputs(batch)` are a model's inputs, and `evaluations[name]` is a batch.
    `heads` are the heads that its edits name, as they were found.
    """

    run: Run
    experiment: Experiment
    model: Any
    task: Any
    edits: tuple[opto.toolkit.AbstractEdit, ...]
    evaluations: Mapping[str, Any]
    heads: Mapping[str, FoundHeads] = dataclasses.field(default_factory=dict)

    @property
    def summaries(self) -> Mapping[str, Summary | None]:
        """How the rows of a set become numbers, from the config of the task."""
        return self.experiment.task.summaries


def load(path: str | os.PathLike, checkpoint: int = -1) -> Trained:
    """Reads a run: its model at a checkpoint (sequences seen; -1 is the last).

    **Raises:** `ValueError` if there is no run or no such checkpoint, if the last one
    is gone, or if the data's file is missing or has changed.
    """
    run = Run(path)
    experiment = run.read(Experiment)
    data = experiment.load_data()
    task = experiment.task.build(data)
    run.check_data(experiment.data and digest(experiment.data))
    sets = experiment._read_sets(run, task, data)
    if not sets and "eval_data.h5" in expected_files(run):
        text = f"{run.path / 'eval_data.h5'} is gone, and with it the sets"
        warnings.warn(text, stacklevel=2)
    at = last_checkpoint(run) if checkpoint == -1 else checkpoint
    model = run.load(experiment._model(task), at)
    heads = kept_heads(run.path, experiment.heads)
    heads = measured_heads(experiment.heads) if heads is None else heads
    with made_with(run.plugins):
        edits = _acting(experiment._edits(heads))
    return Trained(run, experiment, model, task, edits, sets, heads)


def _acting(
    edits: tuple[opto.toolkit.AbstractEdit, ...],
) -> tuple[opto.toolkit.AbstractEdit, ...]:
    """The edits that are not at strength 0, which runs before version 0.4 may have."""
    return tuple(edit for edit in edits if np.any(getattr(edit, "strength", 1) != 0))


@register_reader
def _donor(path: Path, checkpoint: int) -> Donor | None:
    """Reads a run folder of ours for another run."""
    folder = path if path.is_dir() else path.parents[1]
    if not path.is_dir() and not (folder / "config.json").is_file():
        return None
    if not isinstance(Run(folder).config.get("task"), dict):
        return None  # A run of another codebase.
    if path != folder:
        raise ValueError("give the run's folder and checkpoint=, not the file")
    run = load(path, checkpoint)
    inputs = run.task.interface.structs
    return Donor(run.model, run.edits, inputs, run.task, run.evaluations)
