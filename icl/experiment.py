"""An experiment on exemplar-label sequences: one value that rebuilds a run."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import zlib
from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

import opto

from ._grafts import pinned, read_edits
from .config import from_json, to_json
from .data import absolute, digest, LowRankClasses, Source
from .models import ExemplarLabelModel, TransformerConfig
from .optimizers import Adam, Optimizer
from .runs import disk, open_run, Run
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
    save_sequences,
    Sequence,
)
from .train import (
    check_members,
    check_seed,
    check_set_names,
    fit,
    Member,
    Result,
    Training,
)


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
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

    task: ExemplarLabel
    """The sampler of training sequences."""
    data: Source = LowRankClasses()
    """Where the classes come from; see `icl.data`."""
    model: TransformerConfig = TransformerConfig()
    """The transformer."""
    optimizer: Optimizer = Adam()
    """With its learning rate."""
    training: Training = Training()
    """How long, and when to look."""
    evaluations: dict[str, EvaluationSet] = dataclasses.field(default_factory=dict)
    """The sets it is evaluated on, by name."""
    edits: tuple[str, ...] = ()
    """Edits in force throughout, as text: `Zero('blocks.1.attn.z', head=3)`."""
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
        return self._member(jnp.asarray(self.data.load()))

    def _member(self, data: Array) -> Member:
        task = self.task.build(data)
        model, edits = self._model(task), self._edits()
        # A misspelt site is an error now, not after the compilation.
        opto.check(edits, opto.sites(model, *example_inputs(task)))
        samplers = {
            name: setting.of(self.task).build(task.data)
            for name, setting in self.evaluations.items()
        }
        for name, sampler in samplers.items():
            _check_fits(f"evaluation set {name!r}", sampler, model, task.num_labels)
        sets = self._draw(samplers)
        return Member(model, task, self.optimizer, self.train_seed, edits, sets)

    def _model(self, task: ExemplarLabelTask) -> ExemplarLabelModel:
        if task.data.ndim == 3:
            size = {"dim": task.data.shape[-1]}
        else:
            size = {"num_exemplars": int(task.data.max()) + 1}
        # Compiled as one: operation by operation it takes seconds.
        count = task.num_labels
        build = eqx.filter_jit(lambda key: self.model.build(count, **size, key=key))
        return build(_stream(self.init_seed, "initialisation"))

    def _edits(self) -> tuple[opto.AbstractEdit, ...]:
        return read_edits(self.edits)

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


def run_experiment(
    experiment: Experiment, out: str | os.PathLike, *, resume: bool = False
) -> Result:
    """Trains an experiment into a run folder.

    **Arguments:**

    - `out`: The folder; see `icl.runs.open_run` for when it is refused.
    - `resume`: Continue the run that is there.

    **Raises:** `ValueError` for bad configs and folders, and if the data's file is not
    what the run began with; `FloatingPointError` if the loss stops being finite.
    """
    return run_experiments([experiment], [out], resume=resume)[0]


def run_experiments(
    experiments: Iterable[Experiment],
    outs: Iterable[str | os.PathLike],
    *,
    resume: bool = False,
) -> list[Result]:
    """Trains experiments that differ in numbers only as the members of one program.

    Seeds, learning rates, edits' values and the heads they select may differ; `fit`
    says what may not.

    **Arguments:**

    - `outs`: A run folder for each; see `icl.runs.open_run` for when one is refused.
    - `resume`: Continue the runs that are there.

    **Raises:** As `run_experiment`, and `ValueError` if the experiments cannot share a
    program.
    """
    experiments, outs = list(experiments), list(outs)
    if not experiments or len(experiments) != len(outs):
        got = f"{len(experiments)} experiments and {len(outs)} folders"
        raise ValueError(f"each experiment needs a folder, got {got}")
    if len({os.path.realpath(out) for out in outs}) < len(outs):
        raise ValueError("each experiment needs a folder of its own, got one twice")
    training = experiments[0].training
    for experiment in experiments:
        if experiment.training != training:
            got = f"{training} and {experiment.training}"
            raise ValueError(
                f"experiments that train together share training=, got {got}"
            )
    # The same data is the same array, which members share.
    load = functools.cache(lambda source: jnp.asarray(source.load()))
    hashed = functools.cache(digest)
    # Absolute paths: a run is read from other places than it was started from.
    experiments = [
        dataclasses.replace(e, data=absolute(e.data), edits=pinned(e.edits))
        for e in experiments
    ]
    members = [e._member(load(e.data)) for e in experiments]
    check_members(members)  # Before there are folders.
    with contextlib.ExitStack() as stack:
        runs = []
        for experiment, out in zip(experiments, outs, strict=True):
            opened = open_run(out, to_json(experiment), resume=resume)
            runs.append(run := stack.enter_context(opened))
            run.keep_data(hashed(experiment.data))
        members = [
            dataclasses.replace(member, evaluations=_kept(member.evaluations, run.path))
            for member, run in zip(members, runs, strict=True)
        ]
        return fit(members, training, runs=runs)


def _kept(
    evaluations: Mapping[str, Sequence], folder: pathlib.Path
) -> Mapping[str, Sequence]:
    """The sets as the run began with: a later version of JAX may draw others."""
    file = folder / "eval_data.h5"
    if file.exists():
        return load_sequences(file)
    if evaluations:
        with disk(folder):
            save_sequences(file, evaluations)
    return evaluations


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run that was read back, ready to be probed.

    `task.inputs(batch)` are a model's inputs, `evaluations[name]` a batch.
    """

    run: Run
    experiment: Experiment
    model: ExemplarLabelModel
    task: ExemplarLabelTask
    edits: tuple[opto.AbstractEdit, ...]
    evaluations: Mapping[str, Sequence]


def load(path: str | os.PathLike, checkpoint: int = -1) -> Trained:
    """Reads a run: its model at a checkpoint (sequences seen; -1 is the last).

    **Raises:** `ValueError` if there is no run, no such checkpoint, or the data's file
    is not there or not what it was.
    """
    run = Run(path)
    experiment = from_json(Experiment, run.config)
    task = experiment.task.build(jnp.asarray(experiment.data.load()))
    run.check_data(digest(experiment.data))
    saved = run.path / "eval_data.h5"
    sets = load_sequences(saved) if saved.exists() else {}
    model = run.load(experiment._model(task), checkpoint)
    return Trained(run, experiment, model, task, experiment._edits(), sets)
