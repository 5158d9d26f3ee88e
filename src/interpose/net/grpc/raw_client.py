"""Calls of our own as bytes: a request goes out as it is given, and the reply comes back as it was sent.

Cancelling the awaiting task resets the call at the other side at once. Nothing is ever sent twice.
"""

import asyncio

from interpose.net.grpc.exchange import Exchange, RawReply
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream, Waiter
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.stream import NOWHERE, Stream


class RawClient:
    """Makes calls to one backend. `limit` bounds the body of a reply."""

    def __init__(self, upstream: Upstream, hub: Hub, *, limit: int) -> None:
        self._upstream = upstream
        self._hub = hub
        self._limit = limit

    async def connection(self) -> ClientConnection:
        """A connection with room for one more call; RpcError UNAVAILABLE if there is none in time."""
        conn = self._upstream.connection()
        if conn is not None:
            return conn
        future: asyncio.Future[ClientConnection] = asyncio.get_running_loop().create_future()

        def ready(conn: ClientConnection) -> None:
            if not future.done():
                future.set_result(conn)

        def expired(reason: str) -> None:
            if not future.done():
                future.set_exception(RpcError(Code.UNAVAILABLE, reason))

        waiter = Waiter(ready, expired)
        self._upstream.wait(waiter)
        try:
            conn = await future
        finally:
            self._upstream.cancel(waiter)
        # Another call may have taken the room before this task ran.
        return conn if conn.usable else await self.connection()

    async def exchange(self, wire: bytes, body: bytes) -> RawReply:
        """Send a request as it is, headers and body, and collect the reply as it comes."""
        conn = self._upstream.connection()
        if conn is None:
            try:
                conn = await self.connection()
            except RpcError as error:
                return RawReply(None, b"", None, error)
        return await self.exchange_on(conn, wire, body, Exchange(self._limit))

    async def exchange_on(self, conn: ClientConnection, wire: bytes, body: bytes, exchange: Exchange) -> RawReply:
        """Like `exchange`, on a connection that has room. Leaving early resets the call at the other side at once."""
        stream = conn.open(exchange, wire, False)
        stream.send_body(body, True)
        self._hub.flush()
        try:
            return await exchange.reply
        finally:
            if not stream.closed:
                self.abandon(stream)

    def abandon(self, stream: Stream) -> None:
        """Reset the call of this stream at the other side, unless it has ended."""
        if not stream.closed:
            stream.sink = NOWHERE
            stream.reset(ErrorCode.CANCEL)
            self._hub.flush()
