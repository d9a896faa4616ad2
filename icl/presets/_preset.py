"""What makes a function a preset, and which presets there are."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..experiments import Experiment
from ..plugins import check_one_origin, import_installed, scan


_PRESETS: dict[str, Callable[..., Any]] = {}
_Preset = TypeVar("_Preset", bound=Callable[..., Experiment])


def preset(make: _Preset) -> _Preset:
    """Makes a function a preset, `icl train NAME` by its own name; a decorator.

    The function returns an `Experiment`, and can be called without arguments.

    **Raises:** `ValueError` for one that needs arguments, and for a name that another
    preset has.
    """
    name = make.__name__
    needed = [
        argument.name
        for argument in inspect.signature(make).parameters.values()
        if argument.default is argument.empty
        and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
    ]
    if needed:
        wanted = "is called without arguments: give each a default"
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
