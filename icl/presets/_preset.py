"""The decorator that makes a function a preset, and the list of presets."""

import inspect
from collections.abc import Callable
from typing import TypeVar

from ..experiments import Experiment
from ..plugins import Kinds


_PRESETS = Kinds("presets", ("icl.presets",))
_Preset = TypeVar("_Preset", bound=Callable[..., Experiment])


def preset(make: _Preset) -> _Preset:
    """Makes a function a preset with its own name, for `icl train NAME`; a decorator.

    The function returns an `Experiment`, and can be called without arguments.

    **Raises:** `ValueError` if it needs arguments, or if another preset has its name.
    """
    name = make.__name__
    needed = [
        argument.name
        for argument in inspect.signature(make).parameters.values()
        if argument.default is argument.empty
        and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
    ]
    if needed:
        wanted = "must be callable without arguments: give each a default"
        raise ValueError(f"the preset {name} {wanted}, got {', '.join(needed)} without")
    _PRESETS.add(name, make)
    return make


def presets() -> dict[str, Callable[..., Experiment]]:
    """All presets by name: those in this package, and those of plug-ins.

    **Raises:** `ValueError` for a module that cannot be imported.
    """
    return dict(sorted(_PRESETS.found().items()))
