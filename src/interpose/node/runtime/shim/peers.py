"""Connections of the runtime. One that does not take what it asked for is ended before it costs much memory."""

import socket

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shim.event_loop import HANGUP, READ, WRITE, EventLoop, LoopTimer

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

HIGH = 256 << 10
_LIMIT = 16 << 20
_GOODBYE = 5.0


class ShimPeer:
    """One connection. It begins with documents; `switch` makes it one of frames."""

    def __init__(
        self, loop: EventLoop, connection: socket.socket, heard: "Callable[[ShimPeer, dict[str, object]], None]"
    ) -> None:
        connection.setblocking(False)
        self.open = True
        self.wants_events = False
        self.gone: Callable[[], None] | None = None  # the other side hung up
        self.room: Callable[[], None] | None = None  # there is room again
        self._loop = loop
        self._connection = connection
        self._heard = heard
        self._framed: Callable[[int, bytes], None] | None = None
        self._in = bytearray()
        self._out = bytearray()
        self._held = False
        self._finishing = False
        self._goodbye: LoopTimer | None = None
        self._watch()

    @property
    def full(self) -> bool:
        """True while the other side does not take what there is."""
        return len(self._out) > HIGH

    @property
    def pending(self) -> int:
        """How many bytes it has not taken."""
        return len(self._out)

    def switch(self, framed: "Callable[[int, bytes], None]") -> None:
        """From now on frames come and go; each is given to `framed`."""
        self._framed = framed
        self._parse()

    def tell(self, value: dict[str, object]) -> None:
        """Send a document."""
        self.send(protocol.document(value))

    def send(self, data: bytes) -> None:
        """Send bytes, as soon as they are taken."""
        if not self.open or self._finishing:
            return
        self._out += data
        self._flush()
        if len(self._out) > _LIMIT:
            self.close()

    def hold(self) -> None:
        """Read no more for now."""
        self._held = True
        self._watch()

    def release(self) -> None:
        """Go on reading."""
        if self._held and self.open:
            self._held = False
            self._watch()
            self._parse()

    def finish(self) -> None:
        """Close once everything is sent and the other side has hung up, or had time to.

        It may be writing at this moment: closed at once, its write would fail before it has read our last words.
        """
        self._finishing = True
        self._held = False
        if not self._out:
            self._say_goodbye()
        else:
            self._watch()

    def _say_goodbye(self) -> None:
        if self.open and self._goodbye is None:
            self._goodbye = self._loop.later(_GOODBYE, self.close)
            try:
                self._connection.shutdown(socket.SHUT_WR)
            except OSError:
                self.close()
                return
            self._watch()

    def close(self) -> None:
        """Close at once."""
        if not self.open:
            return
        self.open = False
        if self._goodbye is not None:
            self._goodbye.cancel()
        self._loop.unwatch(self._connection.fileno())
        self._connection.close()
        self._out.clear()
        if self.gone is not None:
            self.gone()

    def _watch(self) -> None:
        if self.open:
            events = (HANGUP if self._held else READ) | (WRITE if self._out else 0)
            self._loop.watch(self._connection.fileno(), events, self._ready)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if self.open and events & ~WRITE:
            if self._held:
                self.close()  # it hung up; otherwise we do not listen
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
            return  # nobody wants it any more
        self._in += data
        self._parse()

    def _parse(self) -> None:
        try:
            while self.open and not self._held:
                if self._framed is not None:
                    taken = protocol.take_frame(self._in)
                    if taken is None:
                        return
                    self._framed(*taken)
                else:
                    said = protocol.take_document(self._in)
                    if said is None:
                        return
                    self._heard(self, said)
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
            self._say_goodbye()
            return
        self._watch()
        if self.room is not None:
            self.room()
