"""Named presets: one function a study, returning the config of a run."""

from .induction import induction


__all__ = ["induction"]
