"""A run that a signal stops."""

import contextlib
import signal

import pytest

import icl.training._fit


@contextlib.contextmanager
def stopping_at(step, number=signal.SIGINT):
    """The signal comes when so many steps are done; training stops after some more."""
    advance = icl.training._fit._Fit._advance

    def interrupted(self, stop, bar):
        if self.step == step:
            signal.raise_signal(number)
        advance(self, stop, bar)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(icl.training._fit._Fit, "_advance", interrupted)
        yield
