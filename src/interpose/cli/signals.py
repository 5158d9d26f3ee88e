"""When a daemon is told to stop."""

import asyncio
import logging
import signal

_log = logging.getLogger(__name__)


def stop_signal(reload: str) -> "asyncio.Future[str]":
    """A future that says why to stop. Set up before anybody can find us and send a signal.

    A stray SIGHUP must not end a daemon of the node; `reload` says what to do instead.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()

    def because(why: str) -> None:
        if not stop.done():
            stop.set_result(why)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, because, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, lambda: _log.info(f"SIGHUP was ignored: {reload}"))
    return stop
