"""What signals mean to a daemon."""

import asyncio
import io
import logging
import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from interpose.cli.common.signals import handle_signals
from interpose.log import LogControl, setup
from interpose.testing.eventually import eventually


@pytest.fixture
def stream() -> io.StringIO:
    """Where the log goes."""
    return io.StringIO()


@pytest.fixture
def log(stream: io.StringIO) -> Iterator[LogControl]:
    """Logging as a daemon has it, at the level warning."""
    before = logging.getLogger().level
    control = setup("warning", "text", stream)
    yield control
    control.close()
    logging.getLogger().setLevel(before)


@pytest.fixture
async def stop(log: LogControl) -> "asyncio.Future[str]":
    """Why to stop."""
    return handle_signals(log, "files are watched")


def says(stream: io.StringIO, text: str) -> bool:
    """Whether the log has this."""
    return text in stream.getvalue()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_some_end_the_daemon(stop: "asyncio.Future[str]", number: signal.Signals) -> None:
    """Once is enough, twice is no mistake."""
    os.kill(os.getpid(), number)
    assert await stop == number.name
    os.kill(os.getpid(), number)
    await asyncio.sleep(0)
    assert stop.result() == number.name


async def test_debugging_is_turned_on_and_off(
    stop: "asyncio.Future[str]", log: LogControl, stream: io.StringIO
) -> None:
    """Off is as it was; both are in the log, whatever the level."""
    for level in ("debug", "warning"):
        os.kill(os.getpid(), signal.SIGUSR1)
        await eventually(partial(says, stream, f'"SIGUSR1 changed the log level" level="{level}"'), f"level {level}")
        assert log.level == level
    assert not stop.done()


async def test_debugging_that_was_on_from_the_start_is_turned_off(stop: "asyncio.Future[str]", log: LogControl) -> None:
    """To the usual level."""
    log.set_level("debug")
    os.kill(os.getpid(), signal.SIGUSR1)
    await eventually(lambda: log.level == "info", "level info")
    assert not stop.done()


async def test_stray_ones_are_ignored(stop: "asyncio.Future[str]", log: LogControl, stream: io.StringIO) -> None:
    """With a line in the log."""
    log.set_level("info")
    for number in (signal.SIGHUP, signal.SIGUSR2):
        os.kill(os.getpid(), number)
        await eventually(partial(says, stream, f"{number.name} was ignored"), number.name)
    assert "SIGHUP was ignored: files are watched" in stream.getvalue()
    assert not stop.done()
