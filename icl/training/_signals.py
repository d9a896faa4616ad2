"""Signals that ask a run to stop, heeded where it can save."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Stopped(KeyboardInterrupt):
    """Training stopped where it can resume, because a signal asked for it.

    **Attributes:** `signal`, its number.
    """

    def __init__(self, signal: int, sequences: int):
        super().__init__(f"stopped at {sequences} sequences")
        self.signal = signal


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collects what asks to stop, so that the loop does so where it can save.

    A second signal acts at once.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number, frame):
        asked.append(number)
        restore()

    heeded = [
        number
        # The latter two are what schedulers send before they kill.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
        # Ignored under nohup, or in the background of a script: that is to stay so.
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, ask) for number in heeded}

    def restore():
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield asked
    finally:
        restore()
