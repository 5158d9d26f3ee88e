"""A connection without its frame loop: its state, its output, and the frames that are not HEADERS or DATA.

Outgoing bytes gather in `out`. The connection puts itself on the shell's `dirty` list when the first ones come, and
the shell calls `flush` when its turn is over: one write per connection and turn, however many frames. Answers to PING
go to `later`: they ride on the next write, or the shell flushes them a moment after. grpc-go probes with a PING per
call, and a write of its own for each would wake the backend twice.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from interpose.net.h2 import frames
from interpose.net.h2.buffered import Buffered
from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.hpack import HpackDecoder
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Guard, Limits
from interpose.net.h2.settings import PeerSettings, settings_frame
from interpose.net.h2.stream import Flushable, Stream

NO_STREAM: Final = frames.LARGEST_STREAM_ID + 1
_REMEMBERED_RESETS: Final = 1024
# What frames cost beyond their bytes, in the units of the frame loop: a cancelled call, a stream walked over.
_RESET_COST: Final = 40
_WALK_COST: Final = 2
# Each costs about as much as a call.
_LOST_IN_A_SLICE: Final = 256
# Streams that wait for the connection's window get this many bytes each in turn.
_QUANTUM: Final = 4 * frames.DEFAULT_FRAME_SIZE
# Only a write tells whether the transport is full, so no more than this is taken from queues between two writes.
_TURN: Final = 512 * 1024


class Control:
    """State of one connection. Not for use by more than one task at a time."""

    accepting = False  # whether the peer opens the streams

    def __init__(self, *, limits: Limits, huffman: HuffmanDecoder, dirty: list[Flushable]) -> None:
        self.limits = limits
        self.dirty = dirty
        self.out: list[bytes] = []
        self.later: list[bytes] = []
        self.write: Callable[[bytes], None] = _discard
        self.streams: dict[int, Stream] = {}
        self.waiting: dict[int, Stream] = {}  # streams with a queue
        # Those of them that their own window lets send, in the order in which they get their turn. Only these are
        # looked at when the connection may send again: streams without a window cost nothing, however many there are.
        self.sendable: OrderedDict[int, Stream] = OrderedDict()
        self.blocked = False  # the transport's buffer is full: no more DATA
        self.allowance = _TURN  # queued bytes that may go out before the transport is asked again
        self.unfinished = False  # a stream stopped because the allowance was used up
        self.buffered = Buffered()  # bytes in the queues of streams; connections of one shell share it
        self.failed: ConnectionFault | None = None
        self.unread = False  # there is more to do than a slice took
        self.spent = 0  # by the last slice, in units of about 0.1 us
        self.cost = 0  # of what a handler did, until the frame loop adds it up
        self._lost: list[Stream] = []  # streams whose sinks were not called yet
        self.draining = False  # no new streams, as far as we can tell the peer
        self.leaving = False  # no stream can be opened any more: the end of the last one ends the connection
        self.last_stream = 0
        self.next_stream = NO_STREAM  # the next one that we open
        self.unsent = NO_STREAM  # streams of ours from here on were opened since the last write
        self._withdrawn: set[int] = set()
        self.peer_window = frames.DEFAULT_WINDOW
        self.send_window = frames.DEFAULT_WINDOW
        self.stream_window = limits.stream_window
        self.credit_step = limits.stream_window // 2
        self.table_update = b""
        self.peer = PeerSettings()
        self.on_idle: Callable[[], None] = _nothing
        self.on_unread: Callable[[], None] = _nothing  # `unread` was set by a write, not by what was received
        self._unacked = 0
        self._unacked_limit = limits.connection_window // 2
        self._rest = b""
        self._greeted = False
        self._decoder = HpackDecoder(huffman, limits.header_list)
        self.guard = Guard(limits)
        self._fragments: list[bytes] | None = None
        self._fragments_size = 0
        self._fragment_of = (0, 0)  # stream, flags
        self._resets: dict[int, None] = {}
        # By type of frame, from PRIORITY on.
        self._handlers: tuple[Callable[[int, int, bytes], None], ...] = (
            self._on_priority,
            self._on_rst_stream,
            self._on_settings,
            self._on_push_promise,
            self._on_ping,
            self._on_goaway,
            self._on_window_update,
        )

    def start(self) -> None:
        """Send our settings, the first frame on a connection."""
        self.emit(settings_frame(self.limits, self.announced()))
        self.emit(frames.window_update(0, self.limits.connection_window - frames.DEFAULT_WINDOW))

    def announced(self) -> dict[int, int]:
        """Settings of this role, beside the ones both roles send."""
        raise NotImplementedError

    def emit(self, data: bytes) -> None:
        """Queue bytes for the next flush."""
        if not self.out:
            self.dirty.append(self)
        self.out.append(data)

    def flush(self) -> None:
        """Hand everything to the transport in one piece; then, if it took that, once more of what waits."""
        out = self.out
        if self.later:
            out += self.later
            self.later.clear()
        if self._withdrawn:
            self._strike_out()
        while out:
            data = b"".join(out)
            out.clear()
            self.unsent = self.next_stream
            self.write(data)
            self.allowance = _TURN
            if self.unfinished and not self.unread:
                self._write_more()

    def withdraw(self, stream: Stream) -> None:
        """Forget a stream that we opened since the last write: the peer never gets its frames."""
        self._withdrawn.add(stream.number)
        stream.clear()
        self.drop(stream)

    def _strike_out(self) -> None:
        """Take the frames of streams that were withdrawn out of what is to be written."""
        data = b"".join(self.out)
        kept = []
        position = 0
        while position < len(data):
            length, what, number = frames.read_head(data, position)
            end = position + frames.HEAD_SIZE + length
            if number not in self._withdrawn:
                kept.append(data[position:end])
            elif what == frames.DATA:
                self.send_window += length
            position = end
        self.out[:] = kept
        self._withdrawn.clear()
        self._pump()

    def _write_more(self) -> None:
        """The transport took all: so it may take more of what waits. If that is not all either, others come first."""
        self.unfinished = False
        self._pump()
        if self.unfinished:
            self.unread = True
            self.on_unread()

    def fail(self, fault: ConnectionFault) -> None:
        """End this connection: GOAWAY now, every stream lost; the shell closes after the flush."""
        if self.failed is None:
            self.failed = fault
            self.emit(frames.goaway(self.last_stream, fault.code, fault.reason.encode()))
            self.lost()

    def lost(self) -> None:
        """The transport is closed or closing: end all streams, so that no caller waits for them."""
        self._rest = b""
        streams = [*self.streams.values()]
        self.streams.clear()
        for stream in streams:
            stream.clear()
        self._lost += reversed(streams)
        self._lose()

    def _lose(self) -> None:
        """Tell the sinks, some in each slice."""
        lost = self._lost
        for _ in range(min(len(lost), _LOST_IN_A_SLICE)):
            stream = lost.pop()
            stream.sink.on_lost(stream)
        if lost:
            self.unread = True

    def let_go(self) -> None:
        """Drop the references to objects that refer to this one, so that all of it is freed at once."""
        self._handlers = ()
        self.on_idle = self.on_unread = _nothing

    def resume(self) -> None:
        """The transport takes bytes again."""
        self.blocked = False
        self._pump()

    def tick(self) -> None:
        """Called once a second. The guard is ticked by its owner."""
        self._decoder.walked = 0

    def drop(self, stream: Stream) -> None:
        """Both sides are done: forget the stream."""
        if self.streams.pop(stream.number, None) is not None and self.leaving and not self.streams:
            self.on_idle()

    def unqueue(self, stream: Stream) -> None:
        """Nothing of this stream waits any more."""
        self.waiting.pop(stream.number, None)
        self.sendable.pop(stream.number, None)

    def forget(self, stream: Stream) -> None:
        """We reset it: what the peer sent before it knew is not its fault."""
        self._remember(stream.number)
        stream.clear()
        self.drop(stream)

    def _remember(self, number: int) -> None:
        if len(self._resets) >= _REMEMBERED_RESETS:
            del self._resets[next(iter(self._resets))]
        self._resets[number] = None

    def turn_away(self, number: int, code: int) -> None:
        """Reset a stream that was never accepted."""
        self.emit(frames.rst_stream(number, code))
        self._remember(number)

    def refuse(self, stream: Stream, code: int) -> None:
        """Reset a stream on which the peer broke a rule, and call its sink."""
        self.emit(frames.rst_stream(stream.number, code))
        self.forget(stream)
        stream.sink.on_reset(stream, code)
        # A peer that makes us reset its streams is no better than one that does it itself (CVE-2025-8671).
        self.guard.reset()

    def _stray(self, number: int, what: str) -> None:
        """A frame for a stream that is not open: late ones are ignored, early ones are an error."""
        if number == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on stream 0")
        if self.is_idle(number):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on a stream that was never opened")
        self.guard.idle(f"{what} on a closed stream")
        if number not in self._resets and what in ("DATA", "HEADERS"):
            self.emit(frames.rst_stream(number, ErrorCode.STREAM_CLOSED))

    def is_idle(self, number: int) -> bool:
        """Whether this stream was never opened."""
        raise NotImplementedError

    def _on_priority(self, number: int, _flags: int, payload: bytes) -> None:
        self.guard.idle("PRIORITY")
        if number == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        stream = self.streams.get(number)
        if len(payload) == 5:
            if int.from_bytes(payload[:4], "big") & 0x7FFFFFFF == number and stream is not None:
                self.refuse(stream, ErrorCode.PROTOCOL_ERROR)
        elif stream is not None:
            self.refuse(stream, ErrorCode.FRAME_SIZE_ERROR)

    def _on_rst_stream(self, number: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM has another size than 4")
        stream = self.streams.get(number)
        if stream is None:
            self._stray(number, "RST_STREAM")
            return
        self.guard.reset()
        self.cost += _RESET_COST
        stream.clear()
        self.drop(stream)
        stream.sink.on_reset(stream, int.from_bytes(payload, "big"))

    def _on_settings(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        self.guard.idle("SETTINGS")
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload")
            return
        change = self.peer.update(payload)
        self.peer_window = self.peer.initial_window
        if change:
            self._move_windows(change)
        if self.peer.table_lowered:
            # We keep no table: zero is below any size that was asked for, and is sent once (RFC 7541 4.2).
            self.table_update = b"\x20"
            self.peer.table_lowered = False
        self.emit(frames.SETTINGS_ACK)
        if change > 0:
            self._pump()
        self.on_settings()

    def _move_windows(self, change: int) -> None:
        # Every open stream is touched: with a thousand of them this is no cheap frame.
        self.guard.idle("SETTINGS with another window", len(self.streams) // 8)
        self.cost += _WALK_COST * len(self.streams)
        for stream in self.streams.values():
            stream.send_window += change
            if stream.send_window > frames.LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE overflows a window")
        for number, stream in self.waiting.items():
            if stream.send_window > 0:
                self.sendable[number] = stream
            else:
                self.sendable.pop(number, None)

    def on_settings(self) -> None:
        """The peer's settings have changed."""

    def _on_push_promise(self, _number: int, _flags: int, _payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which nobody asked for")

    def _on_ping(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING has another size than 8")
        self.guard.idle("PING")
        if flags & frames.ACK:
            self.on_pong(payload)
        else:
            self.later.append(frames.ping(payload, ack=True))

    def on_pong(self, payload: bytes) -> None:
        """The answer to a PING of ours."""

    def _on_goaway(self, number: int, _flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is cut short")
        self.guard.idle("GOAWAY")
        self.on_goaway(int.from_bytes(payload[:4], "big") & 0x7FFFFFFF, int.from_bytes(payload[4:8], "big"))

    def on_goaway(self, last_stream: int, code: int) -> None:
        """The peer takes no more streams above this one."""

    def _on_window_update(self, number: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE has another size than 4")
        increment = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if number == 0:
            if increment == 0:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by zero")
            self.send_window += increment
            if self.send_window > frames.LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window overflows")
            self._pump()
            return
        stream = self.streams.get(number)
        if stream is None:
            if self.is_idle(number):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE on a stream that was never opened")
            return
        if increment == 0:
            self.refuse(stream, ErrorCode.PROTOCOL_ERROR)
            return
        stream.send_window += increment
        if stream.send_window > frames.LARGEST_WINDOW:
            self.refuse(stream, ErrorCode.FLOW_CONTROL_ERROR)
        elif number in self.waiting:
            stream.pump(frames.LARGEST_WINDOW)

    def _pump(self) -> None:
        """Share what the connection may send among the streams that can, some frames each in turn."""
        sendable = self.sendable
        while sendable and self.send_window > 0 and not self.blocked:
            if self.allowance <= 0:
                self.unfinished = True
                return
            next(iter(sendable.values())).pump(_QUANTUM)  # it leaves, or goes to the end


def _discard(data: bytes) -> None:
    """Before a transport is there, and after it has gone."""


def _nothing() -> None:
    """The default of callbacks."""
