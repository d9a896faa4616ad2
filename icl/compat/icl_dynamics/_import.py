"""A whole run of icl-dynamics as a run folder of ours."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ...batches import save_batches
from ...data import digest
from ...files import check_writable, temporary_of
from ...models import ExemplarLabelModel
from ...runs import keep, open_run
from ...tasks.exemplar_label import load_sequences, Sequence
from ...training import check_set_names
from .._config import read_file
from ._experiment import experiment_from
from ._log import read_log
from ._options import Options, read_options
from ._sequences import approximations
from ._weights import checkpoint_files, open_model


# The bias of added labels: it gives a probability of exactly zero, and is finite.
_NEVER = -1e20


def import_run(
    folder: str | os.PathLike,
    out: str | os.PathLike,
    data: str | os.PathLike | None = None,
) -> tuple[str, ...]:
    """Converts a run of icl-dynamics into a run folder of ours.

    The config, every checkpoint and the log are kept. `imported.json` has the original
    config and the notes that are returned. A new training from the config is another
    run: from the same seeds, ours draws other initial weights and batches. Further
    differences, with a note where they matter:

    - The sequences of the evaluation sets are those of the run, if it saved them
      (`save_eval_data`) or read them from a file that still exists. Otherwise new ones
      are drawn, and the log's rows belong to other sequences.
    - Context items other than the query's class and the distractor are drawn here from
      the other classes. In that code they are drawn from all classes, unless the config
      says otherwise.
    - If the run began from another run's checkpoint, our config begins from new
        weights.
    - A model with fewer labels than classes gets more labels, which it never predicts.

    Without a note: here `init_rescale` does not apply to the label and position tables.
    With `match_query_and_distractors` and no burst, items that by chance are of the
    query's class show its exemplar here. The held-out pairs of `fs_relabel_split` are
    exactly the same.

    **Arguments:**

    - `folder`: The run, with `config.json`, `checkpoints/` and `log.h5`.
    - `out`: The new run folder; it must not exist.
    - `data`: The file of classes, if it is not at the config's path, relative to the
        folder or its parent.

    **Returns:**

    The differences from the original run, one sentence each.

    **Raises:** `ValueError` if `out` exists, something cannot be read or does not fit,
    or the config has something that ours cannot express (naming the field). Then
    nothing is left behind.
    """
    source, target = Path(folder), Path(out)
    if os.path.lexists(target):
        raise ValueError(f"{target} exists and is not overwritten; name another folder")
    check_writable(target.parent)
    config = read_file(source / "config.json")
    files = checkpoint_files(source)
    model, options = open_model(config, files[max(files)])
    experiment = experiment_from(config, options, source, data)
    log = read_log(source / "log.h5", options.train_bs)
    member = experiment.build()
    sets, unknown = _evaluations(options, source, member.evaluations)
    added = member.task.num_labels - _num_labels(model)
    notes = [*unknown, *approximations(options), *_notes(config, options, added)]
    with _whole(target) as temporary:
        with open_run(temporary, experiment) as run:
            run.keep_data(experiment.data and digest(experiment.data))
            for sequences, file in files.items():
                model, said = open_model(config, file)
                if said != options:
                    raise ValueError(f"{file} has another model than {max(files)}.eqx")
                model = _with_labels(model, added)
                _check_shapes(file, model, member.model)
                run.save_checkpoint(sequences, model)
            log.write(run.path / "log.h5", options.train_bs)
            if sets:
                file = run.path / "eval_data.h5"
                save_batches(file, sets, run.owner(file))
            origin = {"folder": os.path.abspath(source), "notes": notes}
            text = json.dumps({**origin, "config": config}, indent=2)
            keep(run.path, "imported.json", text)
    return tuple(notes)


def _evaluations(
    options: Options, folder: Path, drawn: Mapping[str, Sequence]
) -> tuple[dict[str, Sequence], list[str]]:
    """The run's own evaluation sets, as far as they are known, and notes."""
    saved = folder / (options.save_eval_data or "")
    if saved.is_file():
        return _read_sets(saved), []
    names = options.load_eval_data or ()
    sets, notes = {}, []
    for name in [names] if isinstance(names, str) else names:
        # The path as given, or the same file in a sibling folder: runs get moved.
        beside = folder.parent / Path(name).parent.name / Path(name).name
        places = [folder / name, folder.parent / name, beside]
        found = [place for place in places if place.is_file()]
        if found:
            sets |= _read_sets(found[0])
        else:
            notes.append(f"{name} is not here: only the log has its evaluation sets")
    if drawn:
        which = ", ".join(map(repr, drawn))
        notes.append(f"evaluation sets drawn anew; the log is about others: {which}")
    return {**sets, **drawn}, notes


def _read_sets(file: Path) -> dict[str, Sequence]:
    sets = load_sequences(file)
    check_set_names(sets)
    return sets


def _notes(config: Mapping[str, Any], options: Options, added: int) -> list[str]:
    notes = []
    for name, value in dataclasses.asdict(read_options(config)).items():
        # Only what the checkpoints say can differ.
        if value is not None and (said := getattr(options, name)) != value:
            why = "as in the run that it continues"
            notes.append(f"{name} is {said!r} in the checkpoints, {why}, not {value!r}")
    if options.load_from_ckpt is not None:
        start = f"the run began from {options.load_from_ckpt}"
        notes.append(f"{start}; if trained again from its config here, it begins fresh")
    if added > 0:
        notes.append(
            f"{added} labels added, never predicted, so that each class has one"
        )
    return notes


def _num_labels(model: ExemplarLabelModel) -> int:
    return model.unembed.bias.shape[0]  # pyright: ignore[reportOptionalMemberAccess]


def _with_labels(model: ExemplarLabelModel, added: int) -> ExemplarLabelModel:
    """The model with more labels: zero in the context, and never predicted."""
    if added < 0:
        have, wanted = _num_labels(model), _num_labels(model) + added
        raise ValueError(
            f"model_output_classes must be at most the {wanted} labels of the task, "
            f"got a model of {have}"
        )
    bias = model.unembed.bias
    assert bias is not None
    return eqx.tree_at(
        lambda m: (m.embedding.label.weight, m.unembed.weight, m.unembed.bias),
        model,
        (
            jnp.pad(model.embedding.label.weight, ((0, added), (0, 0))),
            jnp.pad(model.unembed.weight, ((0, added), (0, 0))),
            jnp.pad(bias, (0, added), constant_values=_NEVER),
        ),
    )


def _check_shapes(
    file: Path, model: ExemplarLabelModel, wanted: ExemplarLabelModel
) -> None:
    """Raises `ValueError` unless the model fits the data; the config fixes the rest."""
    have, need = (m.embedding.exemplar.weight.shape for m in (model, wanted))
    if have != need:
        raise ValueError(
            f"{file} has an exemplar.weight of shape {list(have)}, but the data needs "
            f"{list(need)}"
        )


@contextlib.contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A hidden folder that is renamed to `target` at the end, or removed."""
    temporary = temporary_of(target)
    try:
        yield temporary
        os.rename(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        # A run's own errors speak of resuming, but here nothing is left to resume.
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            reason = cause.strerror or cause
            raise ValueError(f"cannot write {target}: {reason}") from error
        raise
