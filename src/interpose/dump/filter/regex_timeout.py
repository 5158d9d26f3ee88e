"""An end to work that takes too long: a regular expression may need years, and nothing else runs meanwhile.

A timer of the time that this process computes; its signal comes through while an expression is matched. Signals reach
the main thread only, so work in another one is not limited.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNAL: Final = signal.SIGVTALRM
_TIMER: Final = signal.ITIMER_VIRTUAL


class RegexTimeoutError(Exception):
    """Raised in the work that took longer than it may."""


class RegexTimeout:
    """A limit on the CPU time of work in the main thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = False

    @contextmanager
    def limited(self) -> Iterator[None]:
        """What takes longer inside of this raises RegexTimeoutError."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(_SIGNAL, self._on_alarm)
        try:
            try:
                self._armed = True
                signal.setitimer(_TIMER, self._seconds)
                yield
            finally:
                self._armed = False
        finally:
            signal.setitimer(_TIMER, 0)
            signal.signal(_SIGNAL, before or signal.SIG_DFL)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Inside of `limited`: what does not count. The time starts again behind it."""
        armed, self._armed = self._armed, False
        try:
            yield
        finally:
            if armed:
                signal.setitimer(_TIMER, self._seconds)
                self._armed = True

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self._armed:
            raise RegexTimeoutError(f"it takes longer than {self._seconds:g} s")
