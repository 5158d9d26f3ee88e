"""The life of a daemon, the same in every program: logging, event loop, signals, start, shutdown, close.

Signals are handled before anything is opened: a daemon that can be found can be stopped. Whatever was opened is closed,
also when the start fails half-way.
"""

import asyncio
import gc
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import uvloop

from interpose.cli.common.signals import handle_signals
from interpose.host.systemd import Notifier
from interpose.log import LogControl, setup

if TYPE_CHECKING:
    from interpose.config.relay.settings import LoggingSettings

OpenDaemon = Callable[[LogControl, "asyncio.Future[str]"], "Awaitable[Daemon]"]


class Daemon(ABC):
    """A program that serves until a signal ends it, or a successor takes its place.

    Made inside the event loop. Its sockets are bound when it is made, so that a second process on the same ones gets no
    further; a constructor that raises leaves nothing open.
    """

    def __init__(self) -> None:
        self.notifier = Notifier(os.environ)

    @abstractmethod
    async def start(self) -> None:
        """Begin to serve; the last step is `announce`."""

    @abstractmethod
    async def shut_down(self, reason: str) -> int:
        """Serve no new calls and let those in flight end; the exit code of the process."""

    @abstractmethod
    async def close(self) -> None:
        """Close everything that is open, also after a start that failed or without a shutdown."""

    def announce(self, status: str) -> None:
        """Tell systemd that the daemon serves. The garbage collector skips objects of the start from now on."""
        self.notifier.ready(status, mainpid=os.getpid())
        gc.collect()
        gc.freeze()


def run_daemon(logging: "LoggingSettings", open_daemon: OpenDaemon, *, on_hangup: str) -> int:
    """Run a daemon until the future that `open_daemon` gets has a reason to stop; the exit code.

    Signals set that future, and so may the daemon. `on_hangup` is logged for SIGHUP: what to do instead of a reload.
    """
    log = setup(logging.level, logging.format, debug=logging.debug)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_live(log, open_daemon, on_hangup))


async def _live(log: LogControl, open_daemon: OpenDaemon, on_hangup: str) -> int:
    stop = handle_signals(log, on_hangup)
    daemon = await open_daemon(log, stop)
    try:
        await daemon.start()
        return await daemon.shut_down(await stop)
    finally:
        await daemon.close()
