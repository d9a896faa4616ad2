"""Where a run comes from: versions, commit, machine and command."""

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from ..plugins import imported


_PACKAGES = ("icl-opto", "jax", "jaxlib", "equinox", "optax", "numpy", "h5py")


def provenance() -> dict[str, Any]:
    """What this process knows about itself, as JSON data."""
    return {
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "commit": code_version(),
        "device": str(jax.devices()[0].device_kind),
        "platform": platform.platform(),
        "command": sys.argv,
        "plugins": imported(),
    }


def code_version() -> str | None:
    """The commit of this checkout, with `-dirty` if files were changed since.

    `None` without git, and for an installed package in any folder.
    """
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None
