"""An endless answer of dockerd, cut into its lines: the events, one JSON document each.

Invariant: what is held is at most one line of bounded length; a longer one is left out, and the next is read again.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from interpose.net.h1.heads import Malformed, ResponseHead
from interpose.relay.docker.connection import CLOSED, Backend

_log = logging.getLogger(__name__)
LONGEST: Final = 1 << 20
"""Bytes of a line; an event has a few hundred and the labels of a container."""


class EventLines:
    """The user of a connection on which events were asked for."""

    def __init__(self, backend: Backend, tell: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._backend = backend
        self._tell = tell
        self._line = bytearray()
        self._skipping = False
        backend.ask("GET", self, decode=True)

    def on_data(self, data: bytes) -> None:
        reader = self._backend.reader
        reader.receive(data)
        try:
            while (item := reader.next()) is not None:
                if not isinstance(item, ResponseHead):
                    self._feed(item.data)
                    if item.end:
                        self._end("dockerd ended its events")
                        return
                elif not item.interim and not self._begin(item):
                    return
        except Malformed as error:
            self._end(f"dockerd answered what is not HTTP: {error}")

    def _begin(self, head: ResponseHead) -> bool:
        if head.status != HTTPStatus.OK:
            self._end(f"dockerd answered HTTP {head.status} when asked for its events")
            return False
        if not self.begun.done():
            self.begun.set_result(None)
        return True

    def _feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            whole, self._line = bytes(self._line), bytearray()
            if self._skipping or len(whole) > LONGEST:
                self._skipping = False
                _log.warning("Event too long, skipped", extra={"kv": {"bytes": len(whole)}})
            elif whole.strip():
                self._tell_one(whole)
        self._line += rest
        if len(self._line) > LONGEST:
            self._skipping = True
            self._line.clear()

    def _tell_one(self, line: bytes) -> None:
        try:
            self._tell(line)
        except Exception:
            _log.exception("Handling of an event failed")

    def _end(self, why: str) -> None:
        if not self.begun.done():
            self.begun.set_exception(ConnectionError(why))
        if not self.ended.done():
            self.ended.set_result(why)
        self._backend.abort()

    def on_eof(self) -> bool:
        self._end(CLOSED)
        return False

    def on_lost(self, why: str) -> None:
        self._end(why)

    def on_blocked(self) -> None:
        """One small request was written."""

    def on_writable(self) -> None:
        """Nothing waits."""
