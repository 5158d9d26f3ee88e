"""Connections of the runtime. One that does not read its answers is closed before it costs much memory."""

import socket

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.event_loop import HANGUP, READ, WRITE, EventLoop, LoopTimer

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

HIGH = 256 << 10
_LIMIT = 16 << 20
_CLOSE_TIMEOUT = 5.0


class ShimPeer:
    """A connection of the runtime. It begins with documents; `switch` makes it one of frames."""

    def __init__(
        self, loop: EventLoop, connection: socket.socket, on_request: "Callable[[ShimPeer, dict[str, object]], None]"
    ) -> None:
        connection.setblocking(False)
        self.open = True
        self.wants_events = False
        self.on_close: Callable[[], None] | None = None  # the other side hung up
        self.on_room: Callable[[], None] | None = None  # the buffer has room again
        self._loop = loop
        self._connection = connection
        self._on_request = on_request
        self._on_frame: Callable[[int, bytes], None] | None = None
        self._in = bytearray()
        self._out = bytearray()
        self._held = False
        self._finishing = False
        self._close_timer: LoopTimer | None = None
        self._watch()

    @property
    def full(self) -> bool:
        """True while the other side does not read what was sent."""
        return len(self._out) > HIGH

    @property
    def pending(self) -> int:
        """The number of bytes that are not sent yet."""
        return len(self._out)

    def switch(self, on_frame: "Callable[[int, bytes], None]") -> None:
        """Use frames from now on; `on_frame` is called with each."""
        self._on_frame = on_frame
        self._parse()

    def send_document(self, value: dict[str, object]) -> None:
        """Send a document, or queue it."""
        self.send(protocol.document(value))

    def send(self, data: bytes) -> None:
        """Send bytes, or queue them until the other side reads."""
        if not self.open or self._finishing:
            return
        self._out += data
        self._flush()
        if len(self._out) > _LIMIT:
            self.close()

    def hold(self) -> None:
        """Pause reading, until `release`."""
        self._held = True
        self._watch()

    def release(self) -> None:
        """Resume reading after `hold`."""
        if self._held and self.open:
            self._held = False
            self._watch()
            self._parse()

    def finish(self) -> None:
        """Close once everything is sent and the other side has hung up, or had time to.

        It may be writing at this moment: closed at once, its write would fail before it has read our last answer.
        """
        self._finishing = True
        self._held = False
        if not self._out:
            self._shut_down()
        else:
            self._watch()

    def _shut_down(self) -> None:
        if self.open and self._close_timer is None:
            self._close_timer = self._loop.later(_CLOSE_TIMEOUT, self.close)
            try:
                self._connection.shutdown(socket.SHUT_WR)
            except OSError:
                self.close()
                return
            self._watch()

    def close(self) -> None:
        """Close the connection at once; calls `on_close`."""
        if not self.open:
            return
        self.open = False
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._loop.unwatch(self._connection.fileno())
        self._connection.close()
        self._out.clear()
        if self.on_close is not None:
            self.on_close()

    def _watch(self) -> None:
        if self.open:
            events = (HANGUP if self._held else READ) | (WRITE if self._out else 0)
            self._loop.watch(self._connection.fileno(), events, self._ready)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if self.open and events & ~WRITE:
            if self._held:
                self.close()  # it hung up; nothing else is watched
            else:
                self._receive()

    def _receive(self) -> None:
        try:
            data = self._connection.recv(protocol.FRAME_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        if self._finishing:
            return  # the session is over
        self._in += data
        self._parse()

    def _parse(self) -> None:
        try:
            while self.open and not self._held:
                if self._on_frame is not None:
                    taken = protocol.take_frame(self._in)
                    if taken is None:
                        return
                    self._on_frame(*taken)
                else:
                    request = protocol.take_document(self._in)
                    if request is None:
                        return
                    self._on_request(self, request)
        except protocol.ProtocolError:
            self.close()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._connection.send(self._out[: protocol.FRAME_LIMIT])]
        except BlockingIOError:
            self._watch()
            return
        except OSError:
            self.close()
            return
        if self._finishing:
            self._shut_down()
            return
        self._watch()
        if self.on_room is not None:
            self.on_room()
