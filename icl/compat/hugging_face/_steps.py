"""Folders of one model at several steps of its training, as checkpoints of a run."""

import glob
import hashlib
import operator
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ...batches import batch
from ...checksums import Checked
from ...experiments import Experiment, Trained
from ...models.decoder import Decoder
from ...models.gpt2 import GPT2Config, GPT2Tokens
from ...protocols import ModelConfig, TaskConfig
from ...runs import Run
from ...tasks.tokens import RepeatedTokens
from ._folder import load


_NUMBER = re.compile(r"(\d+)\D*$")


class Steps(Run):
    """The checkpoints are folders of Hugging Face; their numbers are training steps.

    What replays find is stored in the folder that holds them all.
    """

    seen = "training steps"

    def __init__(self, folders: Mapping[int, Path]):
        """**Arguments:** `folders`: By training step."""
        self.folders = dict(sorted(folders.items()))
        self.path = Path(os.path.commonpath([x.parent for x in folders.values()]))

    @property
    def checkpoints(self) -> list[int]:
        return [*self.folders]

    def find(self, checkpoint: int) -> int:
        checkpoint = operator.index(checkpoint)
        at = self.checkpoints[-1] if checkpoint == -1 else checkpoint
        if at not in self.folders:
            known = ", ".join(map(str, self.folders))
            raise ValueError(f"there is no step {at}; there are {known}")
        return at

    def digest(self, checkpoint: int) -> str:
        """Of the names, sizes and times of its files: contents are too large."""
        files = sorted(self.folders[checkpoint].glob("*.safetensors"))
        stats = [(file.name, file.stat()) for file in files]
        about = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        return hashlib.sha256(repr(about).encode()).hexdigest()

    def read_checkpoint(self, checkpoint: int) -> Checked:
        """Without its content, which `load` reads array by array."""
        return Checked(memoryview(b""), self.digest(checkpoint), sealed=False)

    def load(self, template: Any, checkpoint: int = -1) -> Any:
        model = load(self.folders[self.find(checkpoint)])
        arrays = eqx.filter(model, eqx.is_array)
        wanted = eqx.filter(template, eqx.is_array)
        same = jax.tree.structure(arrays) == jax.tree.structure(wanted)
        shapes = lambda tree: [x.shape for x in jax.tree.leaves(tree)]
        if not same or shapes(arrays) != shapes(wanted):
            raise ValueError(f"step {checkpoint} is another model than the last step")
        return jax.tree.map(np.asarray, arrays)


def training_steps(
    folders: str | Sequence[str | os.PathLike[str]] | Mapping[int, str | os.PathLike],
    task: TaskConfig | None = None,
) -> Trained:
    """A model at several steps of its training, for `icl.replay`.

    ```python
    steps = hugging_face.training_steps("pythia-70m/step*")
    found = icl.replay(steps, {"induction": measures.repeat_attention()}, data=tokens)
    found["induction"]  # [step, layer, head]
    ```

    One model is in memory at a time, or a few small ones; the last one is read at once.

    **Arguments:**

    - `folders`: A glob, or a list of folders whose names end in a number, the step; or
        folders by step.
    - `task`: Gives the metrics and an evaluation set `train` of 64 sequences; by
        default `RepeatedTokens`, with as many ids as the model has.

    **Raises:** `ValueError` as `load`, and for folders without steps or with the same.
    """
    run = Steps(_by_step(folders))
    model = load(run.folders[run.find(-1)])
    if task is None:
        task = RepeatedTokens(len(model.embedding.weight))
    experiment = Experiment(task=task, model=_config(model))
    built = task.build(None)
    sets = {"train": batch(built, 64, key=jax.random.key(0))}
    return Trained(run, experiment, model, built, (), sets)


def _config(model: Decoder | GPT2Tokens) -> ModelConfig:
    if isinstance(model, Decoder):
        return model.config
    length, d_model = model.positions.table.shape
    heads = model.blocks[0].attn.num_heads
    tied = model.untied is None
    return GPT2Config(len(model.blocks), d_model, heads, max_length=length, tied=tied)


def _by_step(folders: Any) -> dict[int, Path]:
    if isinstance(folders, Mapping):
        found = {int(step): Path(folder) for step, folder in folders.items()}
    else:
        if isinstance(folders, str):
            paths = sorted(Path(x) for x in glob.glob(folders) if os.path.isdir(x))
        else:
            paths = [Path(folder) for folder in folders]
        found = {}
        for path in paths:
            number = _NUMBER.search(path.name)
            if number is None:
                raise ValueError(f"{path} has no training step at the end of its name")
            step = int(number[1])
            if step in found:
                raise ValueError(f"{found[step]} and {path} are both step {step}")
            found[step] = path
    if not found:
        raise ValueError(f"no folder of a training step: {folders!r}")
    return found
