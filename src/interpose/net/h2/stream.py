"""One stream of one connection: its states, its windows, and what waits to be sent.

A stream belongs to its connection and hands what arrives to its sink. Sinks are shared objects that get the stream with
each event, so that a relayed call allocates two streams and nothing else. A stream may be spliced to another: DATA and
headers that do not end it go straight there, and the sink is called for ends, resets and for what had to wait. `peer`,
`call` and `since` are the sink's own: the stream at the other side, its record of the call, and when it began.

Sending never blocks and never raises: what the windows do not allow yet is queued, and on a closed stream it is
dropped. The queue is bounded by the sender that feeds it, which gives credit only for what was sent. Small pieces are
joined there, so that a byte waiting costs about a byte, and sending a little of a large piece copies no more than that.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from interpose.net.h2 import frames
from interpose.net.h2.frames import pack_short
from interpose.net.h2.states import BODY, DONE, HEAD

if TYPE_CHECKING:
    from interpose.net.h2.control import Control
    from interpose.net.h2.headers import Headers

# Every peer has to take frames of this size, and none that arrives here is larger.
DEFAULT_FRAME_SIZE: Final = frames.DEFAULT_FRAME_SIZE
SMALL_DATA: Final = 64
"""Shorter pieces of a request's body are joined before they go on, so that a backend is not sent a frame for a byte."""
_QUANTUM: Final = 4 * DEFAULT_FRAME_SIZE
# A frame from the queue costs as much as so many bytes of it: many small ones are work, too.
_FRAME_OVERHEAD: Final = 1024
_COST_SHIFT: Final = 5  # bytes sent from a queue for one unit of cost


class _Piece:
    """What waits in a queue: a header block, or body bytes that later ones may be joined to."""

    __slots__ = ("data", "end", "head")

    def __init__(self, head: bool, data: bytes | bytearray, end: bool) -> None:
        self.head = head
        self.data = data
        self.end = end

    def join(self, data: bytes) -> bool:
        """Take these body bytes along, if there is room for them. False if they need a piece of their own."""
        mine = self.data
        if self.head or self.end or len(mine) + len(data) > DEFAULT_FRAME_SIZE:
            return False
        if not isinstance(mine, bytearray):
            mine = self.data = bytearray(mine)
        mine += data
        return True


class Flushable(Protocol):
    """An object with bytes to write when the shell's turn ends: a connection, or a stream with small pieces for it."""

    def flush(self) -> None:
        """Write the bytes, or queue them on the connection."""


class StreamSink(Protocol):
    """Receives the events of a stream. Called in order, and never for a stream that is closed."""

    def on_headers(self, stream: "Stream", headers: "Headers", end: bool) -> None:
        """A response, an interim response or trailers."""

    def on_data(self, stream: "Stream", data: bytes, end: bool) -> None:
        """Body bytes; give credit for them when they are out of memory."""

    def on_sent(self, stream: "Stream", count: int) -> None:
        """Bytes that had to wait in the queue were written."""

    def on_reset(self, stream: "Stream", code: int) -> None:
        """The stream ended with an error: the peer reset it, or broke a rule and got a reset."""

    def on_lost(self, stream: "Stream") -> None:
        """The connection was lost before the stream ended."""


class Stream:
    """See the module. `receiving` and `sending` are states; windows may be negative.

    `ready` says that bytes may be written straight away: the sending side is open and nothing waits before them.
    """

    __slots__ = (
        "_queue",
        "_queued",
        "_sent_of_first",
        "call",
        "conn",
        "credited",
        "number",
        "peer",
        "ready",
        "receive_window",
        "receiving",
        "send_window",
        "sending",
        "since",
        "sink",
        "splice",
        "unacked",
    )

    def __init__(self, conn: "Control", number: int, receiving: int, sink: StreamSink) -> None:
        self.conn = conn
        self.number = number
        self.sink = sink
        self.receiving = receiving
        self.sending = HEAD
        self.ready = True
        self.send_window = conn.peer_window
        self.receive_window = conn.stream_window
        self.unacked = 0
        self.credited = 0
        self._queue: deque[_Piece] | None = None
        self.peer: Stream | None = None
        self.splice: Stream | None = None
        self.call: Any = None
        self.since = 0.0

    @property
    def closed(self) -> bool:
        """Whether both sides are done; nothing can be sent or will be reported."""
        return self.receiving == DONE and self.sending == DONE

    @property
    def received(self) -> int:
        """Body bytes that have arrived, padding included."""
        return self.conn.stream_window - self.receive_window + self.credited

    @property
    def queued(self) -> int:
        """Bytes waiting for a window."""
        return self._queued if self._queue else 0

    def send_headers(self, wire: bytes, end: bool) -> None:
        """Write a header block in its outgoing form: response, request or trailers."""
        conn = self.conn
        size = len(wire)
        if not self.ready or conn.table_update or size > DEFAULT_FRAME_SIZE:
            self._send_headers_slowly(wire, end)
            return
        out = conn.out
        if not out:
            conn.dirty.append(conn)
        if end:
            out += (pack_short(0, size, frames.HEADERS_END, self.number), wire)
            self.sending = DONE
            self.ready = False
            if self.receiving == DONE:
                conn.drop(self)
        else:
            out += (pack_short(0, size, frames.HEADERS_WHOLE, self.number), wire)
            self.sending = BODY

    def _send_headers_slowly(self, wire: bytes, end: bool) -> None:
        if self._queue:
            self._queue.append(_Piece(True, wire, end))
        elif self.sending != DONE:
            self._emit_headers(wire, end)

    def _emit_headers(self, wire: bytes, end: bool) -> None:
        conn = self.conn
        conn.emit(frames.headers(self.number, conn.table_update + wire, end, DEFAULT_FRAME_SIZE))
        conn.table_update = b""
        self.sending = BODY
        if end:
            self._sent_all()

    def send_data(self, data: bytes, end: bool) -> int:
        """Write body bytes, at most a frame's worth. Returns how many went out at once: all, or none, and `on_sent`
        tells later. For a body of any size there is `send_body`."""
        conn = self.conn
        size = len(data)
        if not self.ready or size > self.send_window or size > conn.send_window or conn.blocked:
            return self._send_later(data, end)
        self.send_window -= size
        conn.send_window -= size
        out = conn.out
        if not out:
            conn.dirty.append(conn)
        if end:
            out += (pack_short(0, size, frames.DATA_END, self.number), data)
            self._sent_all()
        else:
            out += (pack_short(0, size, frames.DATA_PLAIN, self.number), data)
        return size

    def send_body(self, data: bytes, end: bool) -> None:
        """Write bytes of any size, in frames."""
        if len(data) <= DEFAULT_FRAME_SIZE:
            self.send_data(data, end)
        else:
            self._send_later(data, end)

    def send_joined(self, data: bytes) -> int:
        """Write a few body bytes with the next flush, in one frame with others that come until then. Returns as
        `send_data` does: `on_sent` tells when they went out."""
        if self.sending == DONE:
            return len(data)
        if self._queue is None:
            self.conn.dirty.append(self)
        self._queue_up(data, False)
        return 0

    def flush(self) -> None:
        """Send what was joined."""
        self.pump(frames.LARGEST_WINDOW)

    def _send_later(self, data: bytes, end: bool) -> int:
        if self.sending == DONE:
            return len(data)
        self._queue_up(data, end)
        # All that the windows allow, whatever else waits: this stream may never have to queue up at all.
        self.pump(frames.LARGEST_WINDOW)
        return 0

    def _queue_up(self, data: bytes, end: bool) -> None:
        queue = self._queue
        if queue is None:
            queue = self._queue = deque()
            self._queued = self._sent_of_first = 0
            self.ready = False
            self.conn.waiting[self.number] = self
        if queue and queue[-1].join(data):
            queue[-1].end = end
        else:
            # A view would keep the whole block alive that it was cut from.
            queue.append(_Piece(False, bytes(data), end))
        self._queued += len(data)
        self.conn.buffered.size += len(data)

    def pump(self, quantum: int) -> None:
        """Send what the windows allow, at most about `quantum` bytes; then queue up among those that could go on."""
        conn = self.conn
        queue = self._queue
        sent = 0
        while queue:
            piece = queue[0]
            if piece.head:
                queue.popleft()
                self._emit_headers(bytes(piece.data), piece.end)
                continue
            allowed = len(piece.data) - self._sent_of_first
            if allowed:
                allowed = min(allowed, self.send_window, conn.send_window)
                if conn.blocked or allowed <= 0 or sent >= quantum:
                    break
                if conn.allowance <= 0:
                    conn.unfinished = True
                    break
            sent += self._send_part(queue, piece, allowed)
        if not queue:
            self._queue = None
            self.ready = self.sending != DONE
            conn.unqueue(self)
        elif self.send_window <= 0:
            conn.sendable.pop(self.number, None)
        else:
            conn.sendable[self.number] = self
            if sent:
                # The stream that was served goes to the end, or a narrow connection window would always go to it.
                conn.sendable.move_to_end(self.number)
        if sent:
            self.sink.on_sent(self, sent)

    def _send_part(self, queue: "deque[_Piece]", piece: _Piece, allowed: int) -> int:
        """Send from the first body in the queue, in frames, as far as it is allowed now."""
        conn = self.conn
        first = self._sent_of_first
        size = min(allowed, _QUANTUM)
        stop = first + size
        last = stop == len(piece.data)
        starts = range(first, stop, DEFAULT_FRAME_SIZE) if size else (first,)
        for start in starts:
            part = bytes(piece.data[start : min(start + DEFAULT_FRAME_SIZE, stop)])
            final = piece.end and last and start + len(part) == stop
            conn.emit(pack_short(0, len(part), frames.DATA_END if final else frames.DATA_PLAIN, self.number))
            conn.out.append(part)
        self.send_window -= size
        conn.send_window -= size
        conn.buffered.size -= size
        self._queued -= size
        worth = size + _FRAME_OVERHEAD * len(starts)
        conn.allowance -= worth
        conn.cost += worth >> _COST_SHIFT
        self._sent_of_first = stop
        if last:
            self._sent_of_first = 0
            queue.popleft()
            if piece.end:
                self._sent_all()
        return size

    def _sent_all(self) -> None:
        self.sending = DONE
        self.ready = False
        if self.receiving == DONE:
            self.conn.drop(self)

    def credit(self, count: int) -> None:
        """Received bytes left our memory: let the peer send as many more, in steps of half a window."""
        self.unacked += count
        if self.unacked >= self.conn.credit_step:
            self.give_credit()

    def give_credit(self) -> None:
        """Tell the peer about all the bytes that left our memory."""
        if self.receiving != DONE:
            self.conn.emit(frames.window_update(self.number, self.unacked))
            self.receive_window += self.unacked
            self.credited += self.unacked
            self.unacked = 0

    def reset(self, code: int) -> None:
        """End the stream with an error of ours. The sink is not called: it is the caller."""
        conn = self.conn
        if self.closed:
            return
        if self.number >= conn.unsent:
            conn.withdraw(self)
        else:
            conn.emit(frames.rst_stream(self.number, code))
            conn.forget(self)

    def clear(self) -> None:
        """Both sides are done and nothing waits. For the connection only."""
        self.receiving = self.sending = DONE
        self.ready = False
        if self._queue is not None:
            self.conn.buffered.size -= self.queued
            self._queue = None
            self.conn.unqueue(self)


class _Nowhere:
    """The sink of a stream without an owner: drops everything."""

    def on_headers(self, stream: Stream, headers: "Headers", end: bool) -> None:
        pass

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        stream.credit(len(data))

    def on_sent(self, stream: Stream, count: int) -> None:
        pass

    def on_reset(self, stream: Stream, code: int) -> None:
        pass

    def on_lost(self, stream: Stream) -> None:
        pass


NOWHERE: Final = _Nowhere()
