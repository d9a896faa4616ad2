"""The config of an icl-dynamics run as an `Experiment`."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ...data import HDF5Classes, OneHotClasses, Source
from ...experiments import Experiment
from ...tasks.exemplar_label import (
    Context,
    EvaluationSet,
    ExemplarLabel,
    Free,
    Matched,
    Mixture,
    Split,
    SplitPart,
    UniformClasses,
    Zipf,
)
from ...training import Training
from ...training.optimizers import Adam, Constant, Optimizer, SGD
from ...training.schedules import Every, Exactly, Schedule
from ._flags import texts_from_config
from ._options import Options
from ._sequences import evaluation_kind, labels_of, training_kinds
from ._weights import model_config


def experiment_from(
    config: dict[str, Any],
    options: Options,
    folder: Path,
    data: str | os.PathLike | None,
) -> Experiment:
    """A run's config as ours; see `import_run` for the arguments and the differences.

    **Arguments:** `options`: Those of the config, with the model as it is in the files.

    **Raises:** `ValueError`, naming the field, for a config that ours cannot express.
    """
    task = _task(options)
    names = options.pe_names
    if len(set(names)) < len(names):
        raise ValueError(f"pe_names must all differ, got {list(names)}")
    return Experiment(
        task=task,
        data=_source(options, folder, data),
        model=model_config(options),
        optimizer=_optimizer(options),
        training=_training(options),
        evaluations={
            name: _evaluation(options, index, task) for index, name in enumerate(names)
        },
        edits=_edits(config, folder),
        init_seed=options.init_seed,
        train_seed=options.train_seed,
        eval_seed=options.eval_seed,
    )


def _task(options: Options) -> ExemplarLabel:
    kinds, share = training_kinds(options), np.asarray(options.mixing_coeffs)
    share = share[share > 0] / share.sum()
    contexts = tuple(kind.context() for kind in kinds)
    assigned = bool(options.assign_query_label_random)
    scheme = "train" if options.fs_relabel else "None"
    fields = "fs_relabel", "assign_query_label_random"
    alpha = options.zipf_alpha
    return ExemplarLabel(
        class_split=_split("class_split", options.class_split),
        exemplar_split=_split("exemplar_split", options.exemplar_split),
        context=_mixed(contexts, tuple(share.tolist())),
        distribution=Zipf(alpha) if alpha else UniformClasses(),
        exemplar_choice=Matched() if options.match_query_and_distractors else Free(),
        labels=labels_of(options, scheme, assigned, kinds, fields),
        noise=options.noise_scale_train,
    )


def _mixed(
    contexts: tuple[Context, ...], share: tuple[float, ...]
) -> Context | Mixture:
    return contexts[0] if len(contexts) == 1 else Mixture(contexts, share)


def _evaluation(options: Options, index: int, task: ExemplarLabel) -> EvaluationSet:
    kind = evaluation_kind(options, index)
    default = "train" if options.fs_relabel else "None"
    scheme = options.entry("pe_fs_relabel_scheme", index, default)
    assigned = bool(options.entry("pe_assign_query_label_random", index, False))
    fields = "pe_fs_relabel_scheme", "pe_assign_query_label_random"
    context, even = kind.context(), UniformClasses()
    labels = labels_of(options, scheme, assigned, [kind], fields)
    return EvaluationSet(
        size=options.eval_iters,
        classes=_part(options, "classes", index, task.class_split),
        exemplars=_part(options, "exemplars", index, task.exemplar_split),
        context=None if context == task.context else context,
        # In that code, only training is Zipfian.
        distribution=None if task.distribution == even else even,
        labels=None if labels == task.labels else labels,
        noise=options.entry("pe_noise_scale", index, None),
    )


def _part(options: Options, what: str, index: int, split: Split) -> SplitPart:
    name = options.entry(f"pe_{what}", index, None)
    sizes = {part: getattr(split, part) for part in ("train", "val", "test")}
    if name in sizes:
        return name
    full = [part for part, size in sizes.items() if size]
    if name == "all" and len(full) == 1:
        return full[0]  # pyright: ignore[reportReturnType]
    got = f"{name!r} of {sizes}"
    raise ValueError(f"pe_{what} must be one part, train, val or test; got {got}")


def _split(field: str, sizes: tuple[int, ...]) -> Split:
    if len(sizes) != 3 or min(sizes) < 0:
        raise ValueError(f"{field} must be three sizes, got {list(sizes)}")
    return Split(*sizes, seed=None)


def _source(
    options: Options, folder: Path, data: str | os.PathLike | None
) -> HDF5Classes | OneHotClasses:
    source: Source
    if options.data_type == "onehot":
        if data is not None:
            raise ValueError(f"data must be None for one-hot data, got {data}")
        return OneHotClasses(sum(options.class_split))
    if data is None:
        places = [folder / options.data_file, folder.parent / options.data_file]
        found = [place for place in places if place.is_file()]
        if not found:
            tried = ", ".join(dict.fromkeys(map(str, places)))
            raise ValueError(f"data_file: there is no {tried}; give the file as data")
        data = found[0]
    source = HDF5Classes(os.path.abspath(data), options.data_path_in_file)
    shape = source.load().shape
    for axis, field in enumerate(("class_split", "exemplar_split")):
        sizes = getattr(options, field)
        if sum(sizes) != shape[axis]:
            wanted = f"{field} {list(sizes)} divides {sum(sizes)}"
            raise ValueError(f"{source.file}: {wanted}, but it holds {shape[axis]}")
    return source


def _optimizer(options: Options) -> Optimizer:
    if options.weight_decay:
        what = "that code adds the sum of the weights' norms to the loss"
        raise ValueError(f"weight_decay must be 0 ({what}), got {options.weight_decay}")
    kinds = {"adam": Adam, "sgd": SGD}
    if options.optimizer not in kinds:
        got = f"{options.optimizer!r}, whose schedules have no counterpart here"
        raise ValueError(f"optimizer must be adam or sgd, got {got}")
    return kinds[options.optimizer](Constant(options.lr))


def _training(options: Options) -> Training:
    total, batch = options.train_iters, options.train_bs
    micro = None if options.train_microbs == batch else options.train_microbs
    evaluate_at = _schedule(options.eval_every, options.eval_sched, total)
    if isinstance(evaluate_at, Exactly):  # That code also evaluates at the end.
        evaluate_at = Exactly(tuple(sorted({*evaluate_at.sequences, total})))
    checkpoint_at = _schedule(options.ckpt_every, options.ckpt_sched, total)
    kept_last = max(options.ckpt_sched or [total + 1]) <= total
    if isinstance(checkpoint_at, Exactly) and kept_last:
        checkpoint_at = Exactly(tuple(sorted({*checkpoint_at.sequences, total})))
    return Training(total, batch, micro, evaluate_at, checkpoint_at)


def _schedule(
    every: int | None, points: tuple[int, ...] | None, total: int
) -> Schedule:
    """The points up to the end; evenly spaced points become an `Every`."""
    if every is not None:
        return Every(every)
    within = sorted({point for point in points or () if point <= total})
    before = [point for point in within if point < total]
    if len(before) > 1 and before == [*range(0, total, before[1] - before[0])]:
        return Every(before[1])
    return Exactly(tuple(within))


def _edits(config: dict[str, Any], folder: Path) -> tuple[str, ...]:
    """The edits of the run's training, if any."""
    opto = [value for name, value in config.items() if name.startswith("opto_")]
    # A number only sets the strength or layer of an edit that another field turns on.
    if not any(value is True or isinstance(value, str | list) for value in opto):
        return ()
    return texts_from_config(config, folder)
