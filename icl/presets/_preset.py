"""The decorator that makes a function a preset, and the list of presets."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..experiments import Experiment
from ..plugins import check_one_origin, import_installed, scan


_PRESETS: dict[str, Callable[..., Any]] = {}
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
    check_one_origin("presets", name, _PRESETS.get(name, make), make)
    _PRESETS[name] = make
    return make


def presets() -> dict[str, Callable[..., Experiment]]:
    """All presets by name: those in this package, and those of plug-ins.

    **Raises:** `ValueError` for a module that cannot be imported.
    """
    scan(__package__)
    import_installed()
    return dict(sorted(_PRESETS.items()))
