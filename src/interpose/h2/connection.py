"""One HTTP/2 connection: frames in, events to the sinks of its streams, frames out.

The loop in `receive` is the data path of the relay. DATA and HEADERS are handled there and in `Stream`; frames of a
stream that is spliced go straight to its peer's connection. Everything else is a method looked up in a table.
`server.ServerConnection` and `client.ClientConnection` add what only one role does: accepting or opening streams.

Outgoing bytes gather in `out`. The connection puts itself on the shell's `dirty` list when the first ones come, and
the shell calls `flush` when its turn is over: one write per connection and turn, however many frames. Answers to PING
go to `later`: they ride on the next write, or the shell flushes them a moment after. grpc-go probes with a PING per
call, and a write of its own for each would wake the backend twice.

A peer that breaks the protocol gets GOAWAY with the right code, and `failed` is set; the shell closes. Nothing but
ConnectionFault can leave the handlers.
"""

from collections.abc import Callable

from interpose.h2 import frames
from interpose.h2.errors import ConnectionFault, ErrorCode
from interpose.h2.headers import Headers
from interpose.h2.hpack import HpackDecoder
from interpose.h2.huffman import HuffmanDecoder
from interpose.h2.limits import Guard, Limits
from interpose.h2.settings import PeerSettings, settings_frame
from interpose.h2.states import BODY, DATA_EVENT, DONE, RECEIVING
from interpose.h2.stream import Stream

_unpack = frames.FRAME_HEAD.unpack_from
_unpack_short = frames.SHORT_HEAD.unpack_from
_pack_short = frames.SHORT_HEAD.pack
_LARGEST = frames.DEFAULT_FRAME_SIZE
_REMEMBERED_RESETS = 1024
_LARGEST_ID = frames.LARGEST_STREAM_ID
# Streams that wait for the connection's window get this many bytes each in turn.
_QUANTUM = 4 * frames.DEFAULT_FRAME_SIZE
# Only a write tells whether the transport is full, so no more than this is taken from queues between two writes.
_TURN = 512 * 1024
# Slices shorter than this are cheaper to copy than to look at through a view.
_VIEW_FROM = 2048


class Connection:
    """State of one connection. Not for use by more than one task at a time."""

    def __init__(self, *, limits: Limits, huffman: HuffmanDecoder, dirty: "list[Connection]") -> None:
        self.limits = limits
        self.dirty = dirty
        self.out: list[bytes] = []
        self.later: list[bytes] = []
        self.write: Callable[[bytes], None] = _discard
        self.streams: dict[int, Stream] = {}
        self.waiting: dict[int, Stream] = {}
        self.blocked = False  # the transport's buffer is full: no more DATA
        self.allowance = _TURN  # queued bytes that may go out before the transport is asked again
        self.unfinished = False  # a stream stopped for want of allowance
        self.failed: ConnectionFault | None = None
        self.draining = False  # no new streams, as far as we can tell the peer
        self.leaving = False  # none can come any more: the last one to end is the end of the connection
        self.last_stream = 0
        self.peer_window = frames.DEFAULT_WINDOW
        self.send_window = frames.DEFAULT_WINDOW
        self.stream_window = limits.stream_window
        self.credit_step = limits.stream_window // 2
        self.table_update = b""
        self.peer = PeerSettings()
        self.on_idle: Callable[[], None] = _nothing
        self._unacked = 0
        self._unacked_limit = limits.connection_window // 2
        self._rest = b""
        self._greeted = False
        self._decoder = HpackDecoder(huffman, limits.header_list)
        self._guard = Guard(limits)
        self._fragments: list[bytes] | None = None
        self._fragment_of = (0, 0)  # stream, flags
        self._resets: dict[int, None] = {}
        self._handlers = (
            None,
            None,
            self._on_priority,
            self._on_rst_stream,
            self._on_settings,
            self._on_push_promise,
            self._on_ping,
            self._on_goaway,
            self._on_window_update,
        )

    # -- the shell's side

    def start(self) -> None:
        """Say what we allow. First thing on a connection."""
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
        """Hand everything to the transport in one piece; then more of what waits, as long as it takes it."""
        out = self.out
        if self.later:
            out += self.later
            self.later.clear()
        while out:
            data = b"".join(out)
            out.clear()
            self.write(data)
            self.allowance = _TURN
            if self.unfinished:
                self.unfinished = False
                self._pump()

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer. Afterwards look at `failed`."""
        if self.failed is None:
            try:
                self._receive(data)
            except ConnectionFault as fault:
                self.fail(fault)

    def fail(self, fault: ConnectionFault) -> None:
        """End this connection: GOAWAY now, every stream lost; the shell closes after the flush."""
        if self.failed is None:
            self.failed = fault
            self.emit(frames.goaway(self.last_stream, fault.code, fault.reason.encode()))
            self.lost()

    def lost(self) -> None:
        """The transport is gone, or will be: nobody may wait for these streams any longer."""
        streams = list(self.streams.values())
        self.streams.clear()
        for stream in streams:
            stream.clear()
            stream.sink.on_lost(stream)

    def resume(self) -> None:
        """The transport takes bytes again."""
        self.blocked = False
        self._pump()

    def tick(self) -> None:
        """A second has passed."""
        self._guard.tick()

    @property
    def half_read(self) -> bool:
        """Something began and has not ended: the preface, a frame or a header block. A slow peer may hold it so."""
        return bool(self._rest) or self._fragments is not None or not self._greeted

    # -- the frame loop

    def _greet(self, data: bytes) -> bytes | None:
        """Check how the peer begins; None while there is not enough to tell. SETTINGS has to come first."""
        if len(data) < frames.HEAD_SIZE:
            self._rest = data
            return None
        head, flags, _ = _unpack(data, 0)
        if head & 0xFF != frames.SETTINGS or flags & frames.ACK:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._greeted = True
        return data

    def _receive(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if not self._greeted:
            greeted = self._greet(data)
            if greeted is None:
                return
            data = greeted
        position = 0 if self._fragments is None else self._gather(data, 0)
        size = len(data)
        last = size - 9
        received = 0
        streams = self.streams
        dirty = self.dirty
        memo = self._decoder.memo
        view: memoryview | None = None
        while position <= last:
            high, length, kind, flags, number = _unpack_short(data, position)
            start = position + 9
            position = start + length
            if high or position > size:
                if high or length > _LARGEST:
                    raise _oversized(high << 16 | length)
                position = start - 9
                break
            if kind == 0:  # DATA
                received += length
                stream = streams.get(number)
                if stream is None:
                    stream = self._stray_data(number, length)
                    if stream is None:
                        continue
                # The table's row for BODY, spelled out: anything else is an error.
                if stream.receiving != BODY or length > stream.receive_window:
                    self._refuse_data(stream, flags, length)
                    continue
                stream.receive_window -= length
                if flags > 1 and flags & 8:  # PADDED
                    payload = self._unpad_data(stream, data, start, position, flags)
                elif length < _VIEW_FROM:
                    payload = data[start:position]
                else:
                    if length > _LARGEST:
                        raise _oversized(length)
                    if view is None:
                        view = memoryview(data)
                    payload = view[start:position]  # type: ignore[assignment]
                if flags == 0:
                    peer = stream.splice
                    if peer is not None and peer.ready and length <= peer.send_window:
                        other = peer.conn
                        if 0 < length <= other.send_window and not other.blocked:
                            # Nothing in the way: what `sink.on_data` and `peer.send_data` would do.
                            peer.send_window -= length
                            other.send_window -= length
                            out = other.out
                            if not out:
                                dirty.append(other)
                            out += (_pack_short(0, length, 0, 0, peer.number), payload)
                            stream.unacked += length
                            if stream.unacked >= self.credit_step:
                                stream.give_credit()
                            continue
                elif flags & 1:  # END_STREAM
                    stream.receiving = DONE
                    stream.sink.on_data(stream, payload, True)
                    if stream.sending == DONE:
                        self.drop(stream)
                    continue
                if length:
                    stream.sink.on_data(stream, payload, False)
                else:
                    self._guard.idle("empty DATA")
            elif kind == 1:  # HEADERS
                if length > _LARGEST:
                    raise _oversized(length)
                if flags == 4 or flags == 5:
                    block = data[start:position]
                else:
                    block = self._strip(data, start, position, flags, number)
                    if not flags & 4:
                        self._fragments = [block]
                        self._fragment_of = (number, flags)
                        position = self._gather(data, position)
                        continue
                headers = memo.get(block)
                if headers is None:
                    headers = self._decoder.decode(block)
                stream = streams.get(number)
                if stream is None:
                    self.on_new_headers(number, headers, flags & 1)
                    continue
                state = RECEIVING[stream.receiving][headers.event + (flags & 1)]
                if state < 0:
                    self._refuse_block(stream, headers, state)
                    continue
                stream.receiving = state
                if flags & 1:
                    stream.sink.on_headers(stream, headers, True)
                    if stream.sending == DONE:
                        self.drop(stream)
                    continue
                peer = stream.splice
                if peer is not None and peer.ready:
                    other = peer.conn
                    wire = headers.wire
                    if not other.table_update and len(wire) <= _LARGEST:
                        out = other.out
                        if not out:
                            dirty.append(other)
                        out += (_pack_short(0, len(wire), 1, 4, peer.number), wire)
                        peer.sending = BODY
                        continue
                stream.sink.on_headers(stream, headers, False)
            elif length > _LARGEST:
                raise _oversized(length)
            elif kind < frames.CONTINUATION:
                self._handlers[kind](number & frames.LARGEST_STREAM_ID, flags, data[start:position])  # type: ignore[misc]
            elif kind == frames.CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            else:
                self._guard.idle("a frame of unknown type")
        if position < size:
            self._rest = data[position:]
        if received:
            self._unacked += received
            if self._unacked >= self._unacked_limit:
                self.emit(frames.window_update(0, self._unacked))
                self._unacked = 0

    def _gather(self, data: bytes, position: int) -> int:
        """Collect the CONTINUATION frames of an unfinished header block: nothing else may come before its end."""
        size = len(data)
        while self._fragments is not None and size - position >= frames.HEAD_SIZE:
            head, flags, number = _unpack(data, position)
            length = head >> 8
            start = position + frames.HEAD_SIZE
            if length > _LARGEST:
                raise _oversized(length)
            if head & 0xFF != frames.CONTINUATION or (number ^ self._fragment_of[0]) & _LARGEST_ID:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
            if start + length > size:
                break
            position = start + length
            self._on_continuation(flags, data[start:position], self._fragments)
        return position

    def _on_continuation(self, flags: int, payload: bytes, fragments: list[bytes]) -> None:
        fragments.append(payload)
        if sum(map(len, fragments)) > self.limits.header_block or len(fragments) > 1024:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "header block is too large")
        if flags & frames.END_HEADERS:
            self._fragments = None
            number, first_flags = self._fragment_of
            self._on_block(number, self._decoder.decode(b"".join(fragments)), first_flags & 1)
        elif len(payload) < 64:
            self._guard.idle("small CONTINUATION")

    def on_new_headers(self, number: int, headers: Headers, end: int) -> None:
        """A whole header block on a stream that is not open. Each role has its own."""
        raise NotImplementedError

    def _on_block(self, number: int, headers: Headers, end: int) -> None:
        """A block that came in pieces; the same as in the loop, without its haste."""
        stream = self.streams.get(number)
        if stream is None:
            self.on_new_headers(number, headers, end)
            return
        state = RECEIVING[stream.receiving][headers.event + end]
        if state < 0:
            self._refuse_block(stream, headers, state)
            return
        stream.receiving = state
        stream.sink.on_headers(stream, headers, end == 1)
        if end and stream.sending == DONE:
            self.drop(stream)

    def _stray_data(self, number: int, length: int) -> Stream | None:
        """DATA for a stream that is not open, unless the reserved bit only made it look so (RFC 9113 4.1)."""
        if length > _LARGEST:
            raise _oversized(length)
        stream = self.streams.get(number & _LARGEST_ID)
        if stream is None:
            self._stray(number & _LARGEST_ID, "DATA")
        return stream

    def _unpad_data(self, stream: Stream, data: bytes, start: int, end: int, flags: int) -> bytes:
        if end - start > _LARGEST:
            raise _oversized(end - start)
        payload = _unpad(data, start, end)
        if not payload and not flags & frames.END_STREAM:
            self._guard.idle("DATA with padding only")
        stream.credit(end - start - len(payload))
        return payload

    def _refuse_data(self, stream: Stream, flags: int, length: int) -> None:
        if length > _LARGEST:
            raise _oversized(length)
        state = RECEIVING[stream.receiving][DATA_EVENT + (flags & 1)]
        self.refuse(stream, -state if state < 0 else ErrorCode.FLOW_CONTROL_ERROR)

    def _refuse_block(self, stream: Stream, headers: Headers, state: int) -> None:
        self.refuse(stream, ErrorCode.ENHANCE_YOUR_CALM if headers.oversized else -state)

    def drop(self, stream: Stream) -> None:
        """Both sides are done: forget the stream."""
        if self.streams.pop(stream.number, None) is not None and self.leaving and not self.streams:
            self.on_idle()

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
        """Refuse a stream that was never taken up."""
        self.emit(frames.rst_stream(number, code))
        self._remember(number)

    def refuse(self, stream: Stream, code: int) -> None:
        """The peer broke a rule on this stream: tell it, and the sink."""
        self.emit(frames.rst_stream(stream.number, code))
        self.forget(stream)
        stream.sink.on_reset(stream, code)
        # A peer that makes us reset its streams is no better than one that does it itself (CVE-2025-8671).
        self._guard.reset()

    def _stray(self, number: int, what: str) -> None:
        """A frame for a stream that is not open: late ones are ignored, early ones are an error."""
        if number == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on stream 0")
        if self.is_idle(number):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on a stream that was never opened")
        self._guard.idle(f"{what} on a closed stream")
        if number not in self._resets and what in ("DATA", "HEADERS"):
            self.emit(frames.rst_stream(number, ErrorCode.STREAM_CLOSED))

    def is_idle(self, number: int) -> bool:
        """Whether this stream was never opened."""
        raise NotImplementedError

    def _strip(self, data: bytes, start: int, end: int, flags: int, number: int) -> bytes:
        payload = _unpad(data, start, end) if flags & frames.PADDED else data[start:end]
        if flags & frames.PRIORITY_FLAG:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "priority fields are cut short")
            if int.from_bytes(payload[:4], "big") & _LARGEST_ID == number & _LARGEST_ID:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
            payload = payload[5:]
        return payload

    # -- the other frames

    def _on_priority(self, number: int, _flags: int, payload: bytes) -> None:
        self._guard.idle("PRIORITY")
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
        self._guard.reset()
        stream.clear()
        self.drop(stream)
        stream.sink.on_reset(stream, int.from_bytes(payload, "big"))

    def _on_settings(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        self._guard.idle("SETTINGS")
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledgement with a payload")
            return
        change = self.peer.update(payload)
        self.peer_window = self.peer.initial_window
        if change:
            for stream in self.streams.values():
                stream.send_window += change
                if stream.send_window > frames.LARGEST_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE overflows a window")
        if self.peer.table_lowered:
            # We keep no table: zero is below whatever was asked for, and is said once (RFC 7541 4.2).
            self.table_update = b"\x20"
            self.peer.table_lowered = False
        self.emit(frames.SETTINGS_ACK)
        if change > 0:
            self._pump()
        self.on_settings()

    def on_settings(self) -> None:
        """The peer's settings have changed."""

    def _on_push_promise(self, _number: int, _flags: int, _payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which nobody asked for")

    def _on_ping(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING has another size than 8")
        self._guard.idle("PING")
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
        self._guard.idle("GOAWAY")
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
        """Share what the connection may send among the waiting streams, some frames each in turn."""
        busy = list(self.waiting.values())
        while busy and not self.blocked:
            busy = [stream for stream in busy if stream.pump(_QUANTUM)]


def _oversized(length: int) -> ConnectionFault:
    return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"frame of {length} bytes")


def _unpad(data: bytes, start: int, end: int) -> bytes:
    if start == end or data[start] >= end - start:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "padding is longer than the frame")
    return data[start + 1 : end - data[start]]


def _discard(data: bytes) -> None:
    """Before a transport is there, and after it has gone."""


def _nothing() -> None:
    """Nobody asked to be told."""
