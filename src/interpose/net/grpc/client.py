"""Calls of our own: unary and server-streaming, over the connections of an Upstream.

Cancelling the awaiting task resets the call at the other side at once. Nothing is ever sent twice.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from interpose.net.grpc.exchange import plain, status_of
from interpose.net.grpc.framing import Messages, frame, request_headers
from interpose.net.grpc.raw_client import RawClient
from interpose.net.grpc.status import Code, RpcError, code_of_reset
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import Headers
from interpose.net.h2.stream import NOWHERE, Stream

Metadata = tuple[tuple[bytes, bytes], ...]


class Client:
    """Makes calls to one backend. `limit` bounds each message."""

    def __init__(self, upstream: Upstream, hub: Hub, *, limit: int = 32 * 1024 * 1024) -> None:
        self.raw = RawClient(upstream, hub, limit=limit)
        self._hub = hub
        self._limit = limit

    async def unary(
        self, path: bytes, message: bytes, *, metadata: Metadata = (), timeout: float | None = None
    ) -> bytes:
        """One message in, one out. Raises RpcError for every other outcome."""
        wire = request_headers(path, metadata, timeout)
        try:
            async with asyncio.timeout(timeout):
                reply = await self.raw.exchange(wire, frame(message))
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s") from None
        return reply.message(self._limit)

    async def server_stream(
        self, path: bytes, message: bytes, *, metadata: Metadata = (), timeout: float | None = None
    ) -> AsyncIterator[bytes]:
        """One message in, any number out. A slow consumer slows the sender down; leaving the loop cancels the call."""
        conn = await self.raw.connection()
        messages = _Incoming(self._limit)
        stream = conn.open(messages, request_headers(path, metadata, timeout), False)
        messages.stream = stream
        stream.send_body(frame(message), True)
        self._hub.flush()
        try:
            async with asyncio.timeout(timeout):
                while (received := await messages.next()) is not None:
                    self._hub.flush()
                    yield received
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"stream did not end within {timeout:g} s") from None
        finally:
            self.raw.abandon(stream)


class _Incoming:
    """The sink of a server stream: messages wait here; credit is given when they are taken."""

    def __init__(self, limit: int) -> None:
        self.stream: Stream | None = None
        self._limit = limit
        self._messages = Messages(limit)
        self._headers: Headers | None = None
        self._ready: deque[tuple[bytes, int]] = deque()
        self._held = 0
        self._end: RpcError | None = None
        self._ended = False
        self._wake = asyncio.Event()

    async def next(self) -> bytes | None:
        while not self._ready:
            if self._ended:
                if self._end is not None:
                    raise self._end
                return None
            self._wake.clear()
            await self._wake.wait()
        message, held = self._ready.popleft()
        if held and self.stream is not None:
            self.stream.credit(held)
        return message

    def _finish(self, error: RpcError | None) -> None:
        if not self._ended:
            self._ended = True
            self._end = error
        self._wake.set()

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        if end:
            self._finish(status_of(headers))
        else:
            self._headers = headers

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._held += len(data)
        try:
            for compressed, message in self._messages.feed(data):
                self._ready.append((plain(self._headers, compressed, message, self._limit), self._held))
                self._held = 0
        except RpcError as error:
            stream.sink = NOWHERE
            stream.reset(ErrorCode.CANCEL)
            self._finish(error)
            return
        if end:
            self._finish(RpcError(Code.INTERNAL, "the stream ended without a status"))
        elif not self._ready and self._held:
            # Part of a message larger than the window: it cannot be taken yet, so the credit is given at once.
            stream.credit(self._held)
            self._held = 0
        self._wake.set()

    def on_sent(self, stream: Stream, count: int) -> None:
        """Nothing: the request is small."""

    def on_reset(self, stream: Stream, code: int) -> None:
        self._finish(RpcError(code_of_reset(code), f"the backend reset the call (HTTP/2 error {code})"))

    def on_lost(self, stream: Stream) -> None:
        self._finish(RpcError(Code.UNAVAILABLE, "connection to the backend was lost"))
