"""The options of `icl train`, besides those of the experiment."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import tyro

from . import CommandOptions
from ._sources import preset_names


@dataclasses.dataclass(frozen=True)
class TrainOptions(CommandOptions):
    """The options besides the fields of the experiment."""

    out: Path
    """The run folder. It must not hold a run, except with --resume."""
    resume: bool = False
    """Continue the run in the folder. The result is the same to the last bit."""
    logger: str = ""
    """Also log to tensorboard, wandb or wandb:PROJECT."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A field of the config and its value as JSON; may be repeated. It is set after the
    options. It reaches what has no option of its own, such as another kind of
    optimizer: 'optimizer={"type": "AdamW", "weight_decay": 0.1}'."""


def train_usage(presets: Iterable[str]) -> str:
    """What `icl train --help` prints."""
    return (
        "usage: icl train PRESET --out DIR [--resume] [options]\n\nPRESET is one of "
        f"{', '.join(presets)};\nor a run folder or its config.json, to repeat a run;\n"
        "or --yaml FILE, a config of Garg et al. (2022) or limits_of_icl.\n"
        "icl train PRESET --help lists every option of its config.\n\n"
        "example: icl train induction --out runs/wide --model.d-model 128"
    )


def asks_yaml(arguments: Sequence[str]) -> bool:
    """Whether `--yaml` comes first, in place of a preset."""
    return bool(arguments) and arguments[0].partition("=")[0] == "--yaml"


def show_help(arguments: Sequence[str]) -> bool:
    """Prints the usage; the help of a preset needs the preset, and is not printed."""
    # The options of a YAML config need the config, too.
    given = arguments and arguments[0].startswith("-") and not asks_yaml(arguments)
    names = preset_names() if given else None
    if names is not None:
        print(train_usage(names))
    return names is not None
