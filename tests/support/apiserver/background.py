"""The test API server in a thread of its own, for tests that have no loop: those that start programs and wait."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.server import ApiServer

T = TypeVar("T")


class Running:
    """A server that runs elsewhere. Everything that touches it goes through `do` and `run`."""

    def __init__(self, server: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    def do(self, act: Callable[[ApiServer], T]) -> T:
        """Call something with the server, in its thread."""

        async def acting() -> T:
            return act(self._server)

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(WAIT_LIMIT)

    def run(self, act: Callable[[ApiServer], Awaitable[T]]) -> T:
        """The same for something to await: `running.run(lambda server: server.faults.restart())`."""

        async def acting() -> T:
            return await act(self._server)

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(WAIT_LIMIT)


@contextmanager
def background(server: ApiServer) -> Iterator[Running]:
    """The server listens inside of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="apiserver", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(WAIT_LIMIT)
        try:
            yield Running(server, loop)
        finally:
            asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(WAIT_LIMIT)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_LIMIT)
        loop.close()
