"""Signals of a daemon: some end it, one changes its log level, others are ignored: they must not end it by default.

Set up before anything is opened that shows the process to others.
"""

import asyncio
import logging
import signal

from interpose.log import LogControl

_log = logging.getLogger(__name__)

_DEBUG = "debug"


def handle_signals(log: LogControl, reload: str) -> "asyncio.Future[str]":
    """A future that gets the reason to stop. SIGUSR1 switches debug logging; `reload` is logged for SIGHUP."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    stray = {signal.SIGHUP: reload, signal.SIGUSR2: "it has no meaning here"}
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, stop, signal.Signals(number).name)
    for number, instead in stray.items():
        loop.add_signal_handler(number, _ignore, signal.Signals(number).name, instead)
    loop.add_signal_handler(signal.SIGUSR1, _DebugSwitch(log).turn)
    return stop


def _end(stop: "asyncio.Future[str]", why: str) -> None:
    if not stop.done():
        stop.set_result(why)


def _ignore(name: str, instead: str) -> None:
    _log.info(f"{name} was ignored: {instead}")


class _DebugSwitch:
    """Debug logging on and off; off is the level before it was turned on."""

    def __init__(self, log: LogControl) -> None:
        self._log = log
        self._before = "info"

    def turn(self) -> None:
        """Turn debug logging on or off, also if the level was changed since."""
        level = self._log.level
        if level == _DEBUG:
            self._log.set_level(self._before)
        else:
            self._before = level
            self._log.set_level(_DEBUG)
        # At a level that is logged before or after: the sender of the signal looks for it.
        text = "SIGUSR1 changed the log level"
        _log.log(max(logging.INFO, logging.getLogger().level), text, extra={"kv": {"level": self._log.level}})
