"""YAML configs of functions in context, of Garg et al. (2022) and limits_of_icl.

`icl train --yaml FILE` reads them. Their schema is that of both public codes; a key
that neither knows is an error. What they say about W&B is ignored: use `--logger`.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..checks import check_scale, instance, positive
from ..experiments import Experiment
from ..protocols import TaskSet
from ..tasks.functions import Curriculum, FunctionClass, InContextFunction, Ramp
from ..tasks.functions.classes import (
    AffineFunction,
    DecisionTree,
    LinearClassification,
    LinearFunction,
    NoisyLinear,
    QuadraticFunction,
    SparseLinear,
    TwoLayerReLU,
    UniformLinear,
)
from ..tasks.functions.classes.noisy import ExpectedSize, KeptSize
from ..training import Training
from ..training.optimizers import Adam, Constant
from ..training.schedules import Every
from ._config import check_known
from ._yaml import read_keys
from .limits_of_icl import model_config


# Each key and its default; `...` has none, and must be given.
_SCHEMA: dict[str, Any] = {
    "out_dir": ...,
    "test_run": False,
    "model": {
        "family": ...,
        "n_dims": ...,
        "n_positions": ...,
        "n_embd": ...,
        "n_layer": ...,
        "n_head": ...,
        "attention_type": "softmax_causal",
        "attention_kwargs": {},
    },
    "training": {
        "task": ...,
        "task_kwargs": {},
        "num_tasks": None,
        "num_training_examples": None,
        "data": "gaussian",
        "batch_size": 64,
        "learning_rate": 3e-4,
        "train_steps": 1000,
        "save_every_steps": 1000,
        "keep_every_steps": -1,
        "resume_id": None,
        "curriculum": {
            part: {"start": ..., "end": ..., "inc": ..., "interval": ...}
            for part in ("dims", "points")
        },
    },
    "wandb": {
        "project": "",
        "entity": "",
        "notes": "",
        "name": None,
        "log_every_steps": 10,
    },
}
# Arguments of any kind, which are checked where they are used.
_FREE = ("attention_kwargs", "task_kwargs")
_EVALUATED = 1280  # Prompts, as in both codes.


@dataclasses.dataclass(frozen=True)
class PublishedRun:
    """What a YAML config says."""

    experiment: Experiment
    out: Path
    """Its `out_dir`."""
    attention_type: str
    """Its kind of attention, which names the figure of the loss."""


def read_yaml(path: str | os.PathLike) -> PublishedRun:
    """The experiment of a YAML config; files that it inherits from are read, too.

    Steps become sequences. The weights are kept every `keep_every_steps`, and the model
    is evaluated every `save_every_steps` steps. Runs resume by themselves.

    **Raises:** `ValueError`, in one line, for a file that cannot be read, a key that is
    unknown or missing, and a value that is not supported.
    """
    path = Path(path)
    given = read_keys(path)
    try:
        return _run(_filled(_SCHEMA, given, ""))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _check_window(model: Mapping[str, Any]) -> None:
    """Raises `ValueError` for windows and global tokens that change nothing there.

    Stored models with such settings are loaded: they are what they are.
    """
    if model["attention_type"] != "local_global":
        return
    given, tokens = model["attention_kwargs"] or {}, 2 * model["n_positions"]
    size, positions = (
        given.get(name) for name in ("local_window_size", "global_attn_indices")
    )
    if size is None or size >= tokens:
        wanted = f"local_window_size of local_global must be below {tokens} tokens"
        raise ValueError(f"model.attention_kwargs: {wanted}, got {size!r}")
    if outside := [x for x in positions or () if not 0 <= x < tokens]:
        wanted = f"global_attn_indices must be from 0 to {tokens - 1}"
        raise ValueError(f"model.attention_kwargs: {wanted}, got {outside[0]}")


def _run(given: Mapping[str, Any]) -> PublishedRun:
    model, training = given["model"], given["training"]
    for name, wanted, value in (
        ("test_run", False, given["test_run"]),
        ("training.num_tasks", None, training["num_tasks"]),
        ("training.num_training_examples", None, training["num_training_examples"]),
        ("training.resume_id", None, training["resume_id"]),
        ("training.data", "gaussian", training["data"]),
    ):
        if value != wanted:
            wanted, got = json.dumps(wanted), repr(value)
            raise ValueError(f"{name} must be {wanted}, got {got}")
    _check_types(given)
    config = model_config(model, "model")
    _check_window(model)
    for name in ("batch_size", "train_steps", "save_every_steps"):
        positive(f"training.{name}", training[name])
    batch, steps = training["batch_size"], training["train_steps"]
    total, kept = steps * batch, training["keep_every_steps"]
    rate = _number("training.learning_rate", training["learning_rate"])
    check_scale("training.learning_rate", rate)
    experiment = Experiment(
        _task(model, training),
        model=config,
        optimizer=Adam(Constant(rate)),
        training=Training(
            num_sequences=total,
            batch_size=batch,
            evaluate_at=Every(training["save_every_steps"] * batch),
            checkpoint_at=Every(kept * batch if kept > 0 else total),
        ),
        evaluations={"train": TaskSet(_EVALUATED)},
    )
    return PublishedRun(experiment, Path(given["out_dir"]), model["attention_type"])


def _task(model: Mapping[str, Any], training: Mapping[str, Any]) -> InContextFunction:
    ramps = {
        part: _ramp(f"training.curriculum.{part}", given, training["batch_size"])
        for part, given in training["curriculum"].items()
    }
    dim, points = model["n_dims"], ramps["points"].end
    if points > model["n_positions"]:
        wanted = f"points must end at n_positions={model['n_positions']} or below"
        raise ValueError(f"training.curriculum: {wanted}, got {points}")
    curriculum = Curriculum(**ramps)
    try:
        curriculum.check(points, dim)
    except ValueError as error:
        raise ValueError(f"training.{error}") from None
    function = _function(training["task"], training["task_kwargs"] or {}, dim)
    grows = ramps["dims"].start < dim or ramps["points"].start < points
    return InContextFunction(
        function,
        dim,
        points,
        curriculum=curriculum if grows else None,
    )


def _ramp(name: str, given: Mapping[str, Any], batch: int) -> Ramp:
    for part, value in given.items():
        instance(f"{name}: {part}", value, int)
    start, end = given["start"], given["end"]
    # A ramp that does not grow may have any increment.
    increment = max(given["inc"], 1) if start == end else given["inc"]
    try:
        positive("interval", given["interval"])
        return Ramp(start, end, increment, given["interval"] * batch)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _noisy(
    scale: float = 1.0, noise_std: float = 0.0, renormalize_ys: bool = False
) -> FunctionClass:
    if noise_std:
        return NoisyLinear(
            noise_std, scale, ExpectedSize() if renormalize_ys else KeptSize()
        )
    if renormalize_ys:
        raise ValueError("renormalize_ys needs a noise_std above 0, got none")
    return LinearFunction(scale)


_FUNCTIONS: dict[str, tuple[Callable[..., FunctionClass], dict[str, str]]] = {
    "linear_regression": (LinearFunction, {"scale": "scale"}),
    "uniform_linear_regression": (UniformLinear, {"scale": "scale"}),
    "sparse_linear_regression": (
        SparseLinear,
        {"scale": "scale", "sparsity": "sparsity"},
    ),
    "linear_classification": (LinearClassification, {}),
    "noisy_linear_regression": (
        _noisy,
        {x: x for x in ("scale", "noise_std", "renormalize_ys")},
    ),
    "affine_regression": (AffineFunction, {"scale": "scale", "bias_std": "bias_std"}),
    "quadratic_regression": (QuadraticFunction, {"scale": "scale"}),
    "relu_2nn_regression": (
        TwoLayerReLU,
        {"scale": "scale", "hidden_layer_size": "hidden"},
    ),
    "decision_tree": (DecisionTree, {"depth": "depth"}),
}
"""By the name of a task: what makes its functions, and our names of its arguments."""


def _function(task: str, arguments: Mapping[str, Any], dim: int) -> FunctionClass:
    check_known("training.task: no task", [task], _FUNCTIONS)
    make, names = _FUNCTIONS[task]
    check_known(f"training.task_kwargs: {task} has no", arguments, names)
    given = {}
    for name, value in arguments.items():
        if name in _SWITCHES:
            instance(f"training.task_kwargs: {name}", value, bool)
        whole = name in (*_SWITCHES, *_WHOLE)
        given[names[name]] = value if whole else _number(name, value)
    try:
        function = make(**given)
        function.check(dim)
        return function
    except ValueError as error:
        raise ValueError(f"training.task_kwargs: {error}") from None


_WHOLE = ("sparsity", "hidden_layer_size", "depth")
_SWITCHES = ("renormalize_ys",)


def _number(name: str, value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {value!r}{_as_number(value)}")
    return float(value)


def _as_number(given: Any) -> str:
    """A hint for texts that look like numbers: YAML takes `1e-4` for a text."""
    if not isinstance(given, str):
        return ""
    try:
        value = float(given)
    except ValueError:
        return ""
    return f"; YAML reads it as text, so write {value:f}"


def _check_types(given: Mapping[str, Any]) -> None:
    """Checks the folder, the keywords, and that weights are kept every n steps."""
    training = given["training"]
    instance("out_dir", given["out_dir"], str)
    keywords = training["task_kwargs"]
    if not isinstance(keywords, dict | None):
        raise ValueError(f"training.task_kwargs must have keys, got {keywords!r}")
    if (kept := training["keep_every_steps"]) != -1:
        try:
            positive("training.keep_every_steps", kept)
        except ValueError as error:
            raise ValueError(f"{error}, or -1 to keep only the last") from None


def _filled(schema: Mapping[str, Any], given: Any, where: str) -> dict[str, Any]:
    """The given values with defaults for the others.

    **Raises:** `ValueError` for keys that are unknown or missing.
    """
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise ValueError(f"{where or 'it'} must have keys, got {given!r}")
    check_known(f"{where}: no key" if where else "no key", given, schema)
    found = {}
    for key, default in schema.items():
        path = f"{where}.{key}" if where else key
        if isinstance(default, dict) and key not in _FREE:
            found[key] = _filled(default, given.get(key), path)
        elif key in given:
            found[key] = given[key]
        elif default is ...:
            raise ValueError(f"{path} is missing")
        else:
            found[key] = default
    return found
