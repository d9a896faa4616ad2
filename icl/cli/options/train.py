"""The options of `icl train`, besides those of the experiment."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import tyro

from . import CommandOptions
from ._sources import preset_names


@dataclasses.dataclass(frozen=True)
class TrainOptions(CommandOptions):
    """Where to train to, and how; besides there are the fields of the experiment."""

    out: Path
    """The run folder; refused if it holds a run, unless --resume is given."""
    resume: bool = False
    """Continue the run that is there, to the same bits."""
    logger: str = ""
    """Where else numbers go: tensorboard, wandb or wandb:PROJECT."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A field of the config and its value as JSON, applied after the options; may
    be repeated. For what has no option of its own, another kind of optimizer, say:
    'optimizer={"type": "AdamW", "weight_decay": 0.1}'."""


def train_usage(presets: Iterable[str]) -> str:
    """What `icl train --help` prints."""
    return (
        "usage: icl train PRESET --out DIR [--resume] [options]\n\nPRESET is one of "
        f"{', '.join(presets)};\nor a run folder or its config.json, to repeat a run.\n"
        "icl train PRESET --help lists every option of its config.\n\n"
        "example: icl train induction --out runs/wide --model.d-model 128"
    )


def show_help(arguments: Sequence[str]) -> bool:
    """Prints the usage; the help of a preset needs the preset, and is not printed."""
    given = arguments and arguments[0].startswith("-")
    names = preset_names() if given else None
    if names is not None:
        print(train_usage(names))
    return names is not None
