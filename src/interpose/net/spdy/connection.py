"""One SPDY/3.1 connection without a socket: bytes in, events out; calls in, bytes out.

Windows: Go's peers (kubectl, the kubelet, containerd) neither count nor announce them, so we do not wait for a window
until the peer shows that it counts. Our own window is announced at once, and updated for those that do: a peer that
sends the status and closes would answer updates with a reset, and the status could be lost.

Invariant: after `SpdyFailed` there are no more events. Streams that the peer opened are never more than the limit,
and what is queued for sending in answer to bytes that came is never more than a small multiple of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from interpose.net.spdy.frames import (
    INITIAL_WINDOW_SIZE,
    Data,
    Frame,
    FrameReader,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SpdyError,
    SpdyHeaders,
    Status,
    SynReply,
    SynStream,
    WindowUpdate,
    data_frame,
    encode,
)
from interpose.net.spdy.headers import HeaderPacker, HeaderUnpacker

WINDOW: Final = 1 << 18  # what a peer that counts may send before we have consumed it
_FIRST_WINDOW: Final = 1 << 16  # of the protocol, until a peer says otherwise
_UNLIMITED: Final = 1 << 31
_LAST_STREAM: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpdyLimits:
    """What a peer may cost us."""

    streams: int = 512  # that it has open; two per forwarded connection, five per exec
    control: int = 1 << 16  # bytes of a control frame
    headers: int = 1 << 16  # bytes of a header block, inflated


class StreamOpened(NamedTuple):
    """The peer opened a stream; `reply` or `reset` it."""

    stream: int
    headers: dict[str, str]


class StreamAccepted(NamedTuple):
    """The peer accepted a stream of ours."""

    stream: int


class DataReceived(NamedTuple):
    """Bytes on a stream; call `consumed` when they were processed."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The peer sends no more on this stream."""

    stream: int


class StreamReset(NamedTuple):
    """The peer ended a stream both ways."""

    stream: int
    status: int


class WindowWidened(NamedTuple):
    """There may be more room for what we send."""


class PingAnswered(NamedTuple):
    """The peer answered a ping of ours."""

    number: int


class GoingAway(NamedTuple):
    """The peer takes no more streams."""


class SpdyFailed(NamedTuple):
    """What came is not SPDY/3.1. Send what is queued, then close."""

    reason: str


SpdyEvent = (
    StreamOpened
    | StreamAccepted
    | DataReceived
    | StreamEnded
    | StreamReset
    | WindowWidened
    | PingAnswered
    | GoingAway
    | SpdyFailed
)


@dataclass(slots=True, kw_only=True)
class _Stream:
    ours: bool  # we opened it
    replied: bool = False
    sending: bool = True
    receiving: bool = True
    sent: int = 0  # bytes
    granted: int = 0  # by WINDOW_UPDATE
    unacknowledged: int = 0  # consumed, and no WINDOW_UPDATE sent for it


class SpdyConnection:
    """One end of a SPDY connection; `client` opens streams with odd numbers."""

    def __init__(self, *, client: bool, limits: SpdyLimits | None = None) -> None:
        self._limits = limits or SpdyLimits()
        self._client = client
        self._frames = FrameReader(self._limits.control)
        self._unpacker = HeaderUnpacker(self._limits.headers)
        self._packer = HeaderPacker()
        self._streams: dict[int, _Stream] = {}
        self._peer_streams = 0  # of those, how many the peer opened
        self._next = 1 if client else 2
        self._last_peer_stream = 0  # the last stream that the peer opened
        self._ping = 1 if client else 2
        self._out = bytearray()
        self._window = _FIRST_WINDOW  # of the peer
        self._counts = False  # the peer counts windows of streams
        self._counts_all = False  # and of all together
        self._granted = 0
        self._sent = 0
        self._unacknowledged = 0
        self._reset_unopened = -1  # the last stream that was reset because it never was opened
        self._failed = False
        self._going_away = False

    def take(self) -> bytes:
        """The bytes to send now; the queue is empty afterwards."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def is_open(self, stream: int) -> bool:
        """Whether a stream is open, at least one way."""
        return stream in self._streams

    def receive(self, data: bytes) -> list[SpdyEvent]:
        """The events of these bytes; none after a failure."""
        events: list[SpdyEvent] = []
        if self._failed:
            return events
        try:
            for frame in self._frames.feed(data):
                events.extend(self._on_frame(frame))
        except SpdyError as error:
            self._failed = True
            self._queue_frame(GoAway(self._last_peer_stream, 1))
            events.append(SpdyFailed(str(error)))
        return events

    def begin(self) -> None:
        """Queue our settings, which announce the window."""
        self._queue_frame(Settings(((INITIAL_WINDOW_SIZE, WINDOW),)))

    def open(self, headers: Mapping[str, str]) -> int:
        """Open a stream; its number. The answer is StreamAccepted or StreamReset."""
        stream = self._next
        if stream > _LAST_STREAM:
            raise SpdyError("this connection has had all the streams it can have")
        self._next += 2
        self._streams[stream] = _Stream(ours=True)
        self._queue_frame(SynStream(stream, self._packer.pack(headers)))
        return stream

    def reply(self, stream: int) -> None:
        """Accept a stream of the peer."""
        if (found := self._streams.get(stream)) is not None and not found.replied:
            found.replied = True
            self._queue_frame(SynReply(stream, self._packer.pack({})))

    def can_send(self, stream: int) -> bool:
        """Whether bytes sent there could arrive."""
        found = self._streams.get(stream)
        return found is not None and found.sending

    def room(self, stream: int) -> int:
        """How many bytes may be sent now. Very many, if the peer does not count."""
        found = self._streams.get(stream)
        if found is None:
            return 0
        room = self._window + found.granted - found.sent if self._counts else _UNLIMITED
        shared = _FIRST_WINDOW + self._granted - self._sent if self._counts_all else _UNLIMITED
        return max(0, min(room, shared))

    def send(self, stream: int, data: bytes) -> None:
        """Send bytes on an open stream. The caller respects `room`."""
        found = self._streams[stream]
        found.sent += len(data)
        self._sent += len(data)
        self._out += data_frame(stream, data)

    def finish(self, stream: int) -> None:
        """End our side of a stream."""
        if (found := self._streams.get(stream)) is not None and found.sending:
            self._out += data_frame(stream, b"", fin=True)
            found.sending = False
            self._drop_if_closed(stream, found)

    def reset(self, stream: int, status: Status = Status.CANCEL) -> None:
        """End a stream both ways."""
        if stream in self._streams:
            self._drop(stream)
            self._queue_frame(RstStream(stream, status))

    def consumed(self, stream: int, count: int) -> None:
        """Received bytes were processed; a window update is queued when half a window is free."""
        found = self._streams.get(stream)
        if found is None or not found.receiving:
            return
        found.unacknowledged += count
        if self._counts_any and found.unacknowledged >= WINDOW // 2:
            self._queue_frame(WindowUpdate(stream, found.unacknowledged))
            found.unacknowledged = 0

    def ping(self) -> int:
        """Queue a ping; its number."""
        number = self._ping
        self._ping = (number + 2) & 0xFFFFFFFF
        self._queue_frame(Ping(number))
        return number

    def go_away(self) -> None:
        """Queue a GOAWAY and refuse further streams."""
        if not self._going_away:
            self._going_away = True
            self._queue_frame(GoAway(self._last_peer_stream))

    @property
    def _counts_any(self) -> bool:
        return self._counts or self._counts_all

    def _queue_frame(self, frame: Frame) -> None:
        self._out += encode(frame)

    def _drop(self, stream: int) -> None:
        if not self._streams.pop(stream).ours:
            self._peer_streams -= 1

    def _drop_if_closed(self, stream: int, found: _Stream) -> None:
        if not found.sending and not found.receiving:
            self._drop(stream)

    def _on_frame(self, frame: Frame) -> Iterator[SpdyEvent]:
        match frame:
            case Data(stream, data, fin):
                yield from self._on_data(stream, data, fin)
            case SynStream(stream, block, fin):
                yield from self._on_open(stream, self._unpacker.unpack(block), fin)
            case SynReply(stream, block, fin):
                self._unpacker.unpack(block)
                yield from self._on_reply(stream, fin)
            case SpdyHeaders(stream, block, fin):
                self._unpacker.unpack(block)
                if stream in self._streams:
                    yield from self._on_end(stream, fin)
            case RstStream(stream, status):
                if stream in self._streams:
                    self._drop(stream)
                    yield StreamReset(stream, status)
            case Ping(number):
                if number % 2 == int(self._client):
                    yield PingAnswered(number)
                else:
                    self._queue_frame(frame)
            case GoAway():
                yield GoingAway()
            case Settings(values):
                yield from self._on_settings(values)
            case _:
                yield from self._on_window(frame.stream, frame.delta)

    def _on_open(self, stream: int, headers: dict[str, str], fin: bool) -> Iterator[SpdyEvent]:
        if not stream or stream % 2 == int(self._client) or stream <= self._last_peer_stream:
            raise SpdyError(f"the peer opened stream {stream} after {self._last_peer_stream}")
        self._last_peer_stream = stream
        if self._going_away or self._peer_streams >= self._limits.streams:
            self._queue_frame(RstStream(stream, Status.REFUSED_STREAM))
            return
        self._streams[stream] = _Stream(ours=False)
        self._peer_streams += 1
        yield StreamOpened(stream, headers)
        yield from self._on_end(stream, fin)

    def _on_reply(self, stream: int, fin: bool) -> Iterator[SpdyEvent]:
        found = self._streams.get(stream)
        if found is None:
            return
        if not found.ours or found.replied:
            self._drop(stream)
            self._queue_frame(RstStream(stream, Status.STREAM_IN_USE))
            yield StreamReset(stream, Status.STREAM_IN_USE)
            return
        found.replied = True
        yield StreamAccepted(stream)
        yield from self._on_end(stream, fin)

    def _on_data(self, stream: int, data: bytes, fin: bool) -> Iterator[SpdyEvent]:
        self._unacknowledged += len(data)
        if self._counts_any and self._unacknowledged >= _FIRST_WINDOW // 2:
            self._queue_frame(WindowUpdate(0, self._unacknowledged))
            self._unacknowledged = 0
        found = self._streams.get(stream)
        if found is None:
            # On a stream that we have closed it was under way; on one that never was it is a mistake.
            # Once is enough: each piece of a frame comes by here.
            if not self._was_opened(stream) and stream != self._reset_unopened:
                self._reset_unopened = stream
                self._queue_frame(RstStream(stream, Status.INVALID_STREAM))
            return
        if not found.receiving:
            self._drop(stream)
            self._queue_frame(RstStream(stream, Status.STREAM_ALREADY_CLOSED))
            yield StreamReset(stream, Status.STREAM_ALREADY_CLOSED)
            return
        if data:
            yield DataReceived(stream, data)
        yield from self._on_end(stream, fin)

    def _was_opened(self, stream: int) -> bool:
        return stream < self._next if stream % 2 == int(self._client) else stream <= self._last_peer_stream

    def _on_end(self, stream: int, fin: bool) -> Iterator[SpdyEvent]:
        found = self._streams.get(stream)
        if fin and found is not None and found.receiving:
            found.receiving = False
            self._drop_if_closed(stream, found)
            yield StreamEnded(stream)

    def _on_settings(self, values: tuple[tuple[int, int], ...]) -> Iterator[SpdyEvent]:
        for number, value in values:
            if number == INITIAL_WINDOW_SIZE:
                self._window = min(value, _LAST_STREAM)
                self._counts = True
                yield WindowWidened()

    def _on_window(self, stream: int, delta: int) -> Iterator[SpdyEvent]:
        if not stream:
            self._counts_all = True
            self._granted += delta
        else:
            self._counts = True
            if (found := self._streams.get(stream)) is not None:
                found.granted += delta
        yield WindowWidened()
