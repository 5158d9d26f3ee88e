"""One call of ours at its lowest level: a request goes out, a whole reply comes back as it was sent."""

import asyncio

from interpose.net.grpc.framing import PREFIX, Messages, decompress, too_large
from interpose.net.grpc.status import Code, RpcError, code_of_http, code_of_reset, parse_code, unquote_message
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import Headers
from interpose.net.h2.stream import NOWHERE, Stream


class RawReply:
    """What the other side answered. Without `trailers` the reply was cut short, and `failure` says how."""

    __slots__ = ("body", "failure", "headers", "trailers")

    def __init__(
        self, headers: Headers | None, body: bytes, trailers: Headers | None, failure: RpcError | None = None
    ) -> None:
        self.headers = headers
        self.body = body
        self.trailers = trailers
        self.failure = failure

    @property
    def status(self) -> RpcError | None:
        """The error this reply means, or None for OK."""
        if self.failure is not None:
            return self.failure
        if self.trailers is not None and self.trailers.grpc_code == 0:
            return None
        return status_of(self.trailers)

    def message(self, limit: int) -> bytes:
        """The one message of a unary reply. Raises RpcError if it carries another status than OK."""
        if (error := self.status) is not None:
            try:
                raise error
            finally:
                del error  # else it holds the frame that holds it, and so every call above
        return self.message_of_ok(limit)

    def message_of_ok(self, limit: int) -> bytes:
        """The message of a reply whose status is known to be OK."""
        body = self.body
        if body[:1] == b"\x00" and int.from_bytes(body[1:PREFIX], "big") == len(body) - PREFIX <= limit:
            return body[PREFIX:]  # one message, whole and plain: what all but a few are
        messages = Messages(limit).feed(body)
        if len(messages) != 1:
            raise RpcError(Code.INTERNAL, f"unary reply has {len(messages)} messages")
        compressed, message = messages[0]
        return plain(self.headers, compressed, message, limit)


def plain(headers: Headers | None, compressed: bool, message: bytes, limit: int) -> bytes:
    """Undo the compression that the headers announce."""
    if not compressed:
        return message
    encoding = (headers.get(b"grpc-encoding") if headers is not None else None) or b""
    try:
        return decompress(encoding, message, limit)
    except LookupError as error:
        raise RpcError(Code.UNIMPLEMENTED, str(error)) from None


def status_of(headers: Headers | None) -> RpcError | None:
    """The status a final header block carries; None for OK."""
    if headers is None:
        return RpcError(Code.INTERNAL, "the reply has no status")
    value = headers.grpc_status
    if value is None:
        http = headers.get(b":status")
        if http is None:
            return RpcError(Code.UNKNOWN, "the reply has no status")
        return RpcError(code_of_http(int(http)), f"HTTP status {http.decode()}")
    code = parse_code(value)
    if code is Code.OK:
        return None
    message = unquote_message(headers.get(b"grpc-message") or b"")
    more = tuple(item for item in headers.items() if item[0] not in (b"grpc-status", b"grpc-message"))
    return RpcError(code, message, more)


class Exchange:
    """The sink that collects a reply. Bodies over `limit` are given up."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._headers: Headers | None = None
        self._body = bytearray()
        self.reply: asyncio.Future[RawReply] = asyncio.get_running_loop().create_future()

    def _finish(self, trailers: Headers | None, failure: RpcError | None = None) -> None:
        if not self.reply.done():
            self.reply.set_result(RawReply(self._headers, bytes(self._body), trailers, failure))

    def expire(self) -> None:
        """End the wait for the reply with a TimeoutError."""
        if not self.reply.done():
            self.reply.set_exception(TimeoutError())
            self.reply.exception()  # retrieved: the caller may have left at the same time

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        if end:
            self._finish(headers)
        else:
            self._headers = headers

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._body += data
        if len(self._body) > self._limit:
            stream.sink = NOWHERE
            stream.reset(ErrorCode.CANCEL)
            self._finish(None, too_large(len(self._body), self._limit))
        elif end:
            self._finish(self._headers)
        else:
            stream.credit(len(data))

    def on_sent(self, stream: Stream, count: int) -> None:
        """Nothing: the request is in memory anyway."""

    def on_reset(self, stream: Stream, code: int) -> None:
        self._finish(None, RpcError(code_of_reset(code), f"the backend reset the call (HTTP/2 error {code})"))

    def on_lost(self, stream: Stream) -> None:
        self._finish(None, RpcError(Code.UNAVAILABLE, "connection to the runtime was lost"))
