"""The accepting role: a client's connection to us."""

from collections.abc import Callable
from typing import Final

from interpose.net.h2 import frames
from interpose.net.h2.connection import Connection
from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.headers import Headers, HeaderShape
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from interpose.net.h2.states import BODY, DONE
from interpose.net.h2.stream import NOWHERE, Flushable, Stream

_REQUEST: Final = int(HeaderShape.REQUEST) * 2
# A header list over the limit counts as a frame without progress for each so many bytes.
_OVERSIZED_STEP: Final = 1024
_DRAIN_PING: Final = b"draining"
# How requests of older HTTP versions begin; such a peer gets an answer it can read.
_HTTP1_METHODS: Final = (
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"OPTIONS ",
    b"DELETE ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
)
_HTTP1_ANSWER: Final = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"This socket speaks gRPC (HTTP/2 with prior knowledge).\n"
)

Accept = Callable[[Stream, Headers, bool], None]


class ServerConnection(Connection):
    """Accepts streams. `accept` gets each new one with its request headers and gives it a sink.

    Headers over the limit come to `accept` too, marked `oversized`, so that the refusal can say why.
    """

    def __init__(self, *, limits: Limits, huffman: HuffmanDecoder, dirty: list[Flushable]) -> None:
        super().__init__(limits=limits, huffman=huffman, dirty=dirty)
        self.accepting = True
        self.accept: Accept = _refuse
        self._final_stream = frames.LARGEST_STREAM_ID
        self._max_streams = limits.streams
        self._preface = b""

    def let_go(self) -> None:
        super().let_go()
        self.accept = _refuse

    def announced(self) -> dict[int, int]:
        return {frames.MAX_CONCURRENT_STREAMS: self.limits.streams}

    def _greet(self, data: bytes) -> bytes | None:
        """The client's preface, then our settings: an HTTP/1.1 client must not get frames as an answer."""
        if not self._preface:
            start = data[: len(frames.PREFACE)]
            if not frames.PREFACE.startswith(start):
                if data.startswith(_HTTP1_METHODS):
                    self.failed = ConnectionFault(ErrorCode.HTTP_1_1_REQUIRED, "an HTTP/1.1 request")
                    self.emit(_HTTP1_ANSWER)
                    return None
                if any(method.startswith(data) for method in _HTTP1_METHODS):
                    self._rest = data
                    return None
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "not an HTTP/2 connection preface")
            if len(start) < len(frames.PREFACE):
                self._rest = data
                return None
            self._preface = start
            data = data[len(frames.PREFACE) :]
            self.start()
        return super()._greet(data)

    def on_new_headers(self, number: int, headers: Headers, end: int) -> None:
        streams = self.streams
        if (
            number <= self.last_stream
            or not number & 1
            or number > self._final_stream
            or len(streams) >= self._max_streams
            or headers.event != _REQUEST
        ):
            self._on_odd_headers(number, headers, end)
            return
        self.last_stream = number
        streams[number] = stream = Stream(self, number, DONE if end else BODY, NOWHERE)
        self.accept(stream, headers, end == 1)

    def _on_odd_headers(self, number: int, headers: Headers, end: int) -> None:
        if number > frames.LARGEST_STREAM_ID:
            self._on_block(number & frames.LARGEST_STREAM_ID, headers, end)  # the reserved bit means nothing
        elif not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {number}")
        elif number <= self.last_stream:
            self._stray(number, "HEADERS")
        else:
            self._on_odd_request(number, headers, end)

    def _on_odd_request(self, number: int, headers: Headers, end: int) -> None:
        self.last_stream = number
        if number > self._final_stream or len(self.streams) >= self._max_streams:
            self.guard.idle("a refused stream")
            self.turn_away(number, ErrorCode.REFUSED_STREAM)
        elif headers.oversized:
            self.guard.idle("a header list over the limit", headers.size // _OVERSIZED_STEP)
            self.streams[number] = stream = Stream(self, number, DONE if end else BODY, NOWHERE)
            self.accept(stream, headers, end == 1)
        else:
            self.guard.idle("a malformed request")
            self.turn_away(number, ErrorCode.PROTOCOL_ERROR)

    def is_idle(self, number: int) -> bool:
        return not number & 1 or number > self.last_stream

    def drain(self) -> None:
        """Send GOAWAY: no stream is cut, `on_idle` is called when the last one has ended.

        The first GOAWAY names no stream, because calls may be on their way; the answer to our PING shows that they
        have arrived, and the second GOAWAY names the last one.
        """
        if not self.draining and self.failed is None:
            self.draining = True
            if self._preface:
                self.emit(frames.goaway(frames.LARGEST_STREAM_ID, ErrorCode.NO_ERROR))
                self.emit(frames.ping(_DRAIN_PING, ack=False))
            else:
                self.on_idle()

    def leave(self) -> None:
        """Send GOAWAY before closing: streams behind the last one were not seen."""
        if self._preface and self.failed is None:
            self.emit(frames.goaway(self.last_stream, ErrorCode.NO_ERROR))

    def on_pong(self, payload: bytes) -> None:
        if self.draining and not self.leaving and payload == _DRAIN_PING:
            self.leaving = True
            self._final_stream = self.last_stream
            self.emit(frames.goaway(self.last_stream, ErrorCode.NO_ERROR))
            if not self.streams:
                self.on_idle()


def _refuse(stream: Stream, _headers: Headers, _end: bool) -> None:
    stream.reset(ErrorCode.REFUSED_STREAM)
