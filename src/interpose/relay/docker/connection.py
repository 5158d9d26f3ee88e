"""One connection to dockerd. It serves one request at a time; who asked is its `user` until the answer is there.

Invariant: bytes without a request end the connection. What follows them could not be told from an answer to another
request.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from interpose.net.h1.heads import Framing, Heads, MalformedError, ResponseHead
from interpose.net.h1.messages import ResponseReader
from interpose.relay.docker.socket import DockerSocket, discard

_log = logging.getLogger(__name__)
CLOSED: Final = "dockerd closed the connection"
_SWITCHED: Final = 101
_PIECE: Final = 64 * 1024
# More than a socket holds: only a dockerd that goes on writing could have so much to say after its end.
_LAST_PIECES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """What dockerd answered. `failure` says why there is no whole answer; `raw` is then what came of it."""

    head: ResponseHead | None = None
    body: bytes = b""  # without the framing of chunks
    raw: bytes = b""  # head and body as they came
    failure: str = ""


class ConnectionUser(Protocol):
    """Who waits for the answer."""

    def on_data(self, data: bytes) -> None:
        """Bytes came from dockerd."""

    def on_eof(self) -> bool:
        """dockerd will say nothing more. True: it may still be written to."""

    def on_lost(self, why: str) -> None:
        """The connection is gone."""

    def on_blocked(self) -> None:
        """dockerd does not read."""

    def on_writable(self) -> None:
        """Called when dockerd reads again."""


class DockerConnection(DockerSocket):
    """A connection to dockerd."""

    __slots__ = ("_ended", "_unasked", "closing_for", "fault", "reader", "served", "user")

    def __init__(self, heads: Heads, ended: "Callable[[DockerConnection], None]", unasked: Callable[[], None]) -> None:
        super().__init__()
        self.reader = ResponseReader(heads)
        self.user: ConnectionUser | None = None
        self.served = 0  # requests sent
        self.fault = ""  # what dockerd did wrong, if that ended the connection
        self.closing_for = 0  # seconds in which the last bytes could not be delivered
        self._ended = ended
        self._unasked = unasked

    def ask(self, method: str, user: ConnectionUser, *, decode: bool = False) -> None:
        """A request with this method is about to be written; the answer is for `user`."""
        self.served += 1
        self.reader.decode = decode
        self.reader.expect(method)
        self.user = user

    def release(self, *, keep: bool) -> None:
        """The answer is complete. Whether another one may follow is for the two heads to say."""
        self.user = None
        if not keep:
            self.close()
        elif self.reader.buffered:
            self._on_unexpected_data()

    def _on_unexpected_data(self) -> None:
        self.fault = "dockerd sent unsolicited data"
        self._unasked()
        self.abort()

    def data_received(self, data: bytes) -> None:
        self.bytes_read += len(data)
        user = self.user
        if user is None:
            self._on_unexpected_data()
            return
        try:
            user.on_data(data)
        except Exception:
            # A bug of ours costs this connection, never the process and never the others.
            _log.exception("Handling of an answer failed")
            self.abort()

    def eof_received(self) -> bool:
        self.eof = True
        return self.user.on_eof() if self.user is not None else False

    def write_failed(self, error: OSError, data: bytes) -> None:
        """dockerd reads no more. It may have answered before, and that is read to its end; the rest of the request is
        for nobody."""
        if isinstance(error, (BrokenPipeError, ConnectionResetError)):
            self.shut = True
            self.write = discard
        else:
            super().write_failed(error, data)

    def on_blocked(self) -> None:
        if self.user is not None:
            self.user.on_blocked()

    def on_writable(self) -> None:
        if self.user is not None:
            self.user.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError):
            self._read_rest()
        super().connection_lost(exc)
        user, self.user = self.user, None
        try:
            if user is not None:
                why = self.fault or (f"{CLOSED}: {exc}" if exc is not None else CLOSED)
                user.on_lost(why)
        finally:
            self._ended(self)

    def _read_rest(self) -> None:
        """What is still in the socket when the transport gave up because of a write."""
        for _ in range(_LAST_PIECES):
            if self.user is None or self._fd < 0:
                return
            try:
                data = os.read(self._fd, _PIECE)
            except OSError:
                return
            if not data:
                return
            self.data_received(data)

    async def fetch(self, method: str, request: bytes, limit: int, *, last: bool = False) -> HttpReply:
        """Send a whole request and collect the answer. A caller that gives up costs the connection.

        `last` says to dockerd that no further request will come, as its client has said to us.
        """
        collecting = ReplyCollector(self, method, limit)
        self.write(request)
        if last:
            self.write_eof()
        try:
            return await collecting.reply
        finally:
            if not collecting.reply.done() or collecting.reply.cancelled():
                self.user = None
                self.abort()


class ReplyCollector:
    """Waits for a whole answer. Interim ones (100 Continue) are for the connection, not for who asked."""

    def __init__(self, backend: DockerConnection, method: str, limit: int) -> None:
        self.reply: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
        self._backend = backend
        self._limit = limit
        self._head: ResponseHead | None = None
        self._body = bytearray()
        self._raw = bytearray()
        backend.ask(method, self, decode=True)

    def on_data(self, data: bytes) -> None:
        reader = self._backend.reader
        reader.receive(data)
        try:
            while (item := reader.next()) is not None:
                if not isinstance(item, ResponseHead):
                    self._raw += item.raw
                    self._body += item.data
                    ended = item.end
                elif item.interim:
                    continue
                else:
                    self._head = item
                    self._raw += item.raw
                    ended = item.framing is Framing.NONE
                    if item.status == _SWITCHED:
                        self._fail("dockerd switched protocols without being asked to")
                        return
                if len(self._body) > self._limit:
                    self._fail(f"the answer is larger than {self._limit} bytes")
                    return
                if ended:
                    self._done()
                    return
        except MalformedError as error:
            self._fail(f"dockerd answered what is not HTTP: {error}")

    def _done(self) -> None:
        head = self._head
        keep = head is not None and head.keep_alive and head.framing is not Framing.UNTIL_CLOSE
        self._backend.release(keep=keep)
        self._set_reply("")

    def _fail(self, why: str) -> None:
        self._backend.fault = why
        self._backend.user = None
        self._backend.abort()
        self._set_reply(why)

    def _set_reply(self, failure: str) -> None:
        if not self.reply.done():
            self.reply.set_result(
                HttpReply(head=self._head, body=bytes(self._body), raw=bytes(self._raw), failure=failure)
            )

    def on_eof(self) -> bool:
        try:
            part = self._backend.reader.eof()
        except MalformedError as error:
            self._fail(f"{CLOSED} in the middle of its answer: {error}")
        else:
            if part is not None:
                self._raw += part.raw
                self._body += part.data
                self._done()
        return False

    def on_lost(self, why: str) -> None:
        self._set_reply(why)

    def on_blocked(self) -> None:
        """The request is written whole; its size is bounded by its caller."""

    def on_writable(self) -> None:
        """Nothing to do: nothing is queued."""
