"""Leaving without cutting a call short.

Clients are asked to go elsewhere, calls in flight end by themselves. Event streams never end: when nothing else is
left they are ended with UNAVAILABLE, which every client takes as "connect again".
"""

import asyncio
import logging
from typing import Final, Protocol, runtime_checkable

from interpose.net.grpc.answer import answer, stop_upload
from interpose.net.grpc.listener import Listener
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.net.h2.stream import NOWHERE, Stream

_log = logging.getLogger(__name__)
_LOOK_AGAIN: Final = 0.02
# Seconds that a client has after GOAWAY to close its connection once it has no call in flight.
_FAREWELL: Final = 1.0


@runtime_checkable
class ClosableSink(Protocol):
    """A sink of a client's stream whose call we can end ourselves."""

    def shut(self, stream: Stream, code: int) -> None:
        """Count the call with this status and end its backend side; the caller answers the client."""


class Drain:
    """Empties a listener. Nothing of it may be used afterwards."""

    def __init__(self, listener: Listener, hub: Hub) -> None:
        self._listener = listener
        self._hub = hub

    async def run(self, grace: float) -> bool:
        """Wait at most `grace` seconds for calls in flight. True if all of them ended."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        quiet_since: float | None = None
        self._listener.stop_accepting()
        self._listener.drain()
        self._hub.flush()
        while self._listener.links and loop.time() < deadline:
            streams = self._streams()
            if all(_endless(stream) for stream in streams):
                for stream in streams:
                    self._end(stream)
                self._hub.flush()
                quiet_since = quiet_since or loop.time()
                if loop.time() - quiet_since > _FAREWELL:
                    break
            else:
                quiet_since = None
            await asyncio.sleep(_LOOK_AGAIN)
        left = [stream for stream in self._streams() if not _endless(stream)]
        if left:
            _log.warning("Calls still in flight at the end of the grace period", extra={"kv": {"calls": len(left)}})
        for stream in self._streams():
            self._end(stream)
        self._hub.flush()
        self._listener.abort()
        return not left

    def _streams(self) -> list[Stream]:
        return _streams(self._listener)

    def _end(self, stream: Stream) -> None:
        _end(stream, "the relay is going down or being replaced, connect again")


def end_event_streams(listener: Listener, hub: Hub) -> int:
    """End the streams that never end by themselves, so that their clients open new ones. Returns how many there
    were."""
    streams = [stream for stream in _streams(listener) if stream.call is not None and stream.call.endless]
    for stream in streams:
        _end(stream, "subscribe again, events are delivered in another way now")
    hub.flush()
    return len(streams)


def _streams(listener: Listener) -> list[Stream]:
    return [stream for link in listener.links for stream in link.conn.streams.values()]


def _end(stream: Stream, why: str) -> None:
    answered = stream.call is None
    if isinstance(stream.sink, ClosableSink):
        stream.sink.shut(stream, Code.UNAVAILABLE)
    stream.sink = NOWHERE
    if answered:
        stop_upload(stream)
    else:
        answer(stream, Code.UNAVAILABLE, why)


def _endless(stream: Stream) -> bool:
    """Whether waiting for this stream makes no sense: an event stream, or an upload whose answer was delivered."""
    if stream.call is None:
        return not stream.queued
    endless: bool = stream.call.endless
    return endless
