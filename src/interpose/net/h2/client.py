"""The opening role: our connection to a backend or a hook server."""

from collections.abc import Callable
from typing import Final

from interpose.net.h2 import frames
from interpose.net.h2.connection import Connection
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.frames import pack_short
from interpose.net.h2.headers import Headers
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from interpose.net.h2.states import BODY, HEAD
from interpose.net.h2.stream import Flushable, Stream, StreamSink

# Stream ids run out after a billion calls; stop well before.
_LAST_USABLE: Final = frames.LARGEST_STREAM_ID - 20_000
# Streams up to which shares are not checked, as long as several clients share a connection.
_CROWD: Final = 64


class ClientConnection(Connection):
    """Opens streams. A connection that is `full` or `draining` takes no more; the caller dials another."""

    def __init__(self, *, limits: Limits, huffman: HuffmanDecoder, dirty: list[Flushable]) -> None:
        super().__init__(limits=limits, huffman=huffman, dirty=dirty)
        self.stream_limit = limits.streams  # the peer may lower it; zero once the connection takes no more
        self.ample = 0  # up to so many streams shares are not checked
        self.narrow()
        self.on_greeting: Callable[[], None] | None = None  # called once, with the peer's first settings
        self.next_stream = 1

    def start(self) -> None:
        self.emit(frames.PREFACE)
        super().start()

    def let_go(self) -> None:
        super().let_go()
        self.on_greeting = None

    def announced(self) -> dict[int, int]:
        return {frames.ENABLE_PUSH: 0}

    @property
    def usable(self) -> bool:
        """Whether a further stream may be opened now."""
        return len(self.streams) < self.stream_limit

    def retire(self) -> None:
        """Take no more streams; those that are open go on."""
        self.draining = self.leaving = True
        self.stream_limit = self.ample = 0

    def widen(self) -> None:
        """Skip the check for shares: one client has the connection for itself."""
        self.ample = self.stream_limit - self.stream_limit // 4

    def narrow(self) -> None:
        """Check shares again: several clients may have the connection."""
        self.widen()
        self.ample = min(self.ample, _CROWD)

    def open(self, sink: StreamSink, wire: bytes, end: bool) -> Stream:
        """Send a request. The caller has looked at `usable`."""
        number = self.next_stream
        self.next_stream = number + 2
        if number > _LAST_USABLE:
            self.retire()
        self.streams[number] = stream = Stream(self, number, HEAD, sink)
        size = len(wire)
        if self.table_update or size > frames.DEFAULT_FRAME_SIZE or end:
            if self.table_update:
                self.unsent = number + 2  # the change of the table's size has to arrive, so this stream does
            stream.send_headers(wire, end)
        else:  # the same, for what every call does
            out = self.out
            if not out:
                self.dirty.append(self)
            out += (pack_short(0, size, frames.HEADERS_WHOLE, number), wire)
            stream.sending = BODY
        return stream

    def on_new_headers(self, number: int, headers: Headers, end: int) -> None:
        if number > frames.LARGEST_STREAM_ID:
            self._on_block(number & frames.LARGEST_STREAM_ID, headers, end)  # the reserved bit means nothing
        else:
            self._stray(number, "HEADERS")

    def on_settings(self) -> None:
        if not self.draining:
            self.stream_limit = min(self.peer.max_streams, self.limits.streams)
            self.narrow()
        greeting, self.on_greeting = self.on_greeting, None
        if greeting is not None:
            greeting()

    def is_idle(self, number: int) -> bool:
        return not number & 1 or number >= self.next_stream

    def on_goaway(self, last_stream: int, code: int) -> None:
        """Streams the peer will not process end as refused: a caller may safely try those again."""
        self.retire()
        if not self.streams:
            self.on_idle()
        for stream in [stream for number, stream in self.streams.items() if number > last_stream]:
            stream.clear()
            self.drop(stream)
            stream.sink.on_reset(stream, ErrorCode.REFUSED_STREAM)
