"""Signals that ask a run to stop; it stops where it can save."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Stopped(KeyboardInterrupt):
    """Training stopped at a point where it can resume, because a signal asked for it.

    **Attributes:** `signal`: the number of the signal.
    """

    def __init__(self, signal: int, sequences: int):
        super().__init__(f"stopped at {sequences} sequences")
        self.signal = signal


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collects signals that ask to stop, so the loop can stop where it can save.

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
        # Schedulers send the last two before they kill.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
        # Keep ignoring signals that are ignored under nohup or in a background job.
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
