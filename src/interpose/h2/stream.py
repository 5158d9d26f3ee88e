"""One stream of one connection: its states, its windows, and what waits to be sent.

A stream belongs to its connection and hands what arrives to its sink. Sinks are shared objects that get the stream
with each event, so that a relayed call allocates two streams and nothing else. `peer`, `call` and `since` are the
sink's own: the stream at the other side, its record of the call, and when that began.

Sending never blocks and never raises: what the windows do not allow yet is queued, and on a closed stream it is
dropped. The queue is bounded by whoever feeds it, by giving credit only for what was sent.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from interpose.h2 import frames
from interpose.h2.states import BODY, DONE, HEAD

if TYPE_CHECKING:
    from interpose.h2.connection import Connection
    from interpose.h2.headers import Headers

_pack = frames.FRAME_HEAD.pack


class Sink(Protocol):
    """Who is told what happens on a stream. Called in order; a closed stream is never mentioned again."""

    def on_headers(self, stream: "Stream", headers: "Headers", end: bool) -> None:
        """A response, an interim response or trailers."""

    def on_data(self, stream: "Stream", data: bytes, end: bool) -> None:
        """Body bytes; give credit for them when they are out of memory."""

    def on_sent(self, stream: "Stream", count: int) -> None:
        """Bytes that had to wait in the queue were written."""

    def on_reset(self, stream: "Stream", code: int) -> None:
        """The stream ended with an error: the peer reset it, or broke a rule and was told so."""

    def on_lost(self, stream: "Stream") -> None:
        """The connection is gone."""


class Stream:
    """See the module. `receiving` and `sending` are states; windows may be negative."""

    __slots__ = (
        "_queue",
        "_unacked",
        "call",
        "conn",
        "number",
        "peer",
        "receive_window",
        "receiving",
        "send_window",
        "sending",
        "since",
        "sink",
    )

    def __init__(self, conn: "Connection", number: int, receiving: int) -> None:
        self.conn = conn
        self.number = number
        self.receiving = receiving
        self.sending = HEAD
        self.send_window = conn.peer_window
        self.receive_window = conn.stream_window
        self._unacked = 0
        self._queue: deque[tuple[bool, bytes, bool]] | None = None
        self.sink: Sink = NOWHERE
        self.peer: Stream | None = None
        self.call: Any = None
        self.since = 0.0

    @property
    def closed(self) -> bool:
        """Whether both sides are done; nothing can be sent or will be reported."""
        return self.receiving == DONE and self.sending == DONE

    @property
    def queued(self) -> int:
        """Bytes waiting for a window."""
        return sum(len(data) for head, data, _ in self._queue or () if not head)

    def send_headers(self, wire: bytes, end: bool) -> None:
        """Write a header block in its outgoing form: response, request or trailers."""
        if self.sending == DONE:
            return
        if self._queue:
            self._queue.append((True, wire, end))
            return
        conn = self.conn
        if conn.table_update or len(wire) > conn.max_frame:
            conn.emit(frames.headers(self.number, conn.table_update + wire, end, conn.max_frame))
            conn.table_update = b""
        else:
            out = conn.out
            if not out:
                conn.dirty.append(conn)
            out.append(_pack(len(wire) << 8 | frames.HEADERS, 5 if end else 4, self.number))
            out.append(wire)
        self.sending = BODY
        if end:
            self.sending = DONE
            if self.receiving == DONE:
                conn.drop(self)

    def send_data(self, data: bytes, end: bool) -> int:
        """Write body bytes. Returns how many went out at once: all, or none and `on_sent` tells later."""
        conn = self.conn
        size = len(data)
        if (
            size > self.send_window
            or size > conn.send_window
            or size > conn.max_frame
            or self._queue
            or conn.blocked
            or self.sending == DONE
        ):
            return self._send_later(data, end)
        self.send_window -= size
        conn.send_window -= size
        out = conn.out
        if not out:
            conn.dirty.append(conn)
        out.append(_pack(size << 8, 1 if end else 0, self.number))
        out.append(data)
        if end:
            self.sending = DONE
            if self.receiving == DONE:
                conn.drop(self)
        return size

    def _send_later(self, data: bytes, end: bool) -> int:
        if self.sending == DONE:
            return len(data)
        if self._queue is None:
            self._queue = deque()
        # A view would keep the whole block alive that it was cut from.
        self._queue.append((False, bytes(data), end))
        self.conn.waiting[self.number] = self
        self.pump(self.conn.max_frame * 4)
        return 0

    def pump(self, quantum: int) -> bool:
        """Send what the windows allow, at most about `quantum` bytes. True if more could be sent now."""
        conn = self.conn
        queue = self._queue
        sent = 0
        more = False
        while queue:
            head, data, end = queue[0]
            if head:
                queue.popleft()
                conn.emit(frames.headers(self.number, conn.table_update + data, end, conn.max_frame))
                conn.table_update = b""
            else:
                allowed = min(len(data), self.send_window, conn.send_window, conn.max_frame)
                if conn.blocked or (allowed <= 0 and data):
                    break
                if sent >= quantum:
                    more = True
                    break
                last = allowed == len(data)
                if last:
                    queue.popleft()
                else:
                    queue[0] = (False, data[allowed:], end)
                conn.emit(_pack(allowed << 8, 1 if end and last else 0, self.number) + data[:allowed])
                self.send_window -= allowed
                conn.send_window -= allowed
                sent += allowed
                end = end and last
            if end:
                self.sending = DONE
                if self.receiving == DONE:
                    conn.drop(self)
        if not queue:
            self._queue = None
            conn.waiting.pop(self.number, None)
        if sent:
            self.sink.on_sent(self, sent)
        return more

    def credit(self, count: int) -> None:
        """These received bytes left our memory: let the peer send as many more, in steps of half a window."""
        self._unacked += count
        if self._unacked >= self.conn.credit_step and self.receiving != DONE:
            self.conn.emit(frames.window_update(self.number, self._unacked))
            self.receive_window += self._unacked
            self._unacked = 0

    def reset(self, code: int) -> None:
        """End the stream with an error of ours. The sink is not told: it is the one who says so."""
        if not self.closed:
            self.conn.emit(frames.rst_stream(self.number, code))
            self.conn.forget(self)

    def clear(self) -> None:
        """Both sides are done and nothing waits. For the connection only."""
        self.receiving = self.sending = DONE
        if self._queue is not None:
            self._queue = None
            self.conn.waiting.pop(self.number, None)


class _Nowhere:
    """The sink of a stream nobody cares for any more."""

    def on_headers(self, stream: Stream, headers: "Headers", end: bool) -> None:
        """Dropped."""

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        stream.credit(len(data))

    def on_sent(self, stream: Stream, count: int) -> None:
        """Dropped."""

    def on_reset(self, stream: Stream, code: int) -> None:
        """Dropped."""

    def on_lost(self, stream: Stream) -> None:
        """Dropped."""


NOWHERE = _Nowhere()
