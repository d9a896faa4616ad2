"""Packages that only some installations have."""

import importlib
from typing import Any


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Imports a module that one of the project's extras installs.

    **Arguments:**

    - `extra`: The extra, as in `make EXTRA=resnet`.
    - `purpose`: What needs the module; the error begins with it.

    **Raises:** `ValueError`, in one line, if the module does not exist or is broken.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as error:
        how = f"make EXTRA={extra}, or pip install -e '.[{extra}]'"
        if isinstance(error, ImportError) and error.name == module.partition(".")[0]:
            reason = f"{error.name}, which is not installed"
        else:
            reason = f"{module}, which does not import ({' '.join(str(error).split())})"
        raise ValueError(f"{purpose} needs {reason}: {how}") from error
