"""The life that all daemons share: what is called when, and what a failure leaves."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest

from interpose.cli.common.daemon import Daemon, run_daemon
from interpose.config.relay.settings import LoggingSettings
from interpose.log import LogControl


class RecordedDaemon(Daemon):
    """Writes down what it is asked to do; may fail at its start, or end itself as a relay does."""

    def __init__(self, calls: list[str], *, error: Exception | None = None) -> None:
        super().__init__()
        self._calls = calls
        self._error = error

    async def start(self) -> None:
        self._calls.append("start")
        if self._error is not None:
            raise self._error
        os.kill(os.getpid(), signal.SIGTERM)

    async def shut_down(self, reason: str) -> int:
        self._calls.append(f"shut down: {reason}")
        return 3

    async def close(self) -> None:
        self._calls.append("close")


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Logging is the process's own: as before afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def test_a_signal_shuts_the_daemon_down_and_it_gives_the_exit_code() -> None:
    """Start, shutdown with the reason, close: in this order and once each."""
    calls: list[str] = []

    async def open_daemon(_log: LogControl, _stop: "asyncio.Future[str]") -> Daemon:
        return RecordedDaemon(calls)

    assert run_daemon(LoggingSettings(), open_daemon, on_hangup="nothing is read again") == 3
    assert calls == ["start", "shut down: SIGTERM", "close"]


def test_a_daemon_can_end_itself() -> None:
    """Whoever has the future may set it; the reason is passed on."""
    calls: list[str] = []

    class Replaced(RecordedDaemon):
        async def start(self) -> None:
            calls.append("start")

    async def open_daemon(_log: LogControl, stop: "asyncio.Future[str]") -> Daemon:
        stop.set_result("replaced")
        return Replaced(calls)

    assert run_daemon(LoggingSettings(), open_daemon, on_hangup="x") == 3
    assert calls == ["start", "shut down: replaced", "close"]


def test_a_start_that_fails_is_closed() -> None:
    """The error reaches the command, which prints it."""
    calls: list[str] = []

    async def open_daemon(_log: LogControl, _stop: "asyncio.Future[str]") -> Daemon:
        return RecordedDaemon(calls, error=OSError("no"))

    with pytest.raises(OSError, match="no"):
        run_daemon(LoggingSettings(), open_daemon, on_hangup="x")
    assert calls == ["start", "close"]


async def test_announce_freezes_the_objects_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """They live as long as the process; walking over them again would only take time."""
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("freeze"))
    RecordedDaemon([]).announce("ready")
    assert frozen == ["freeze"]
