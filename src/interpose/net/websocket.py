"""One WebSocket connection (RFC 6455) without a socket: bytes in, events out; messages in, bytes out.

Messages are passed on in pieces, as they arrive: their size needs no limit, and nothing but a head or a control frame
is ever held. Text is passed on as bytes: the protocols above have no use for characters (ADR 0027).

Invariant: after WebSocketClosed or WebSocketFailed there are no more events.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_STATUS, INTERNAL_ERROR = 1000, 1001, 1002, 1005, 1011
_CONTROL_LIMIT: Final = 125
_KNOWN: Final = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
_EXTRA: Final = {126: 2, 127: 8}  # bytes of the length, by what stands in its place
_REASON_LIMIT: Final = 123


class MessagePiece(NamedTuple):
    """Bytes of a message: `first` of them, `last` of them, or neither."""

    data: bytes
    first: bool
    last: bool


class PongReceived(NamedTuple):
    """The peer answered a ping of ours."""

    data: bytes


class WebSocketClosed(NamedTuple):
    """The peer closes; the answer is queued. Send what is queued, then close."""

    code: int
    reason: str


class WebSocketFailed(NamedTuple):
    """The bytes are not WebSocket. Send what is queued, then close."""

    reason: str


WebSocketEvent = MessagePiece | PongReceived | WebSocketClosed | WebSocketFailed


class _BrokenError(Exception):
    """The peer broke a rule; the text says which."""


def apply_mask(data: bytes, mask: bytes, offset: int = 0) -> bytes:
    """Data xor the repeated mask; `offset` is its first byte. Applied twice it gives the data again."""
    turn = offset % 4
    key = (mask[turn:] + mask[:turn]) * (len(data) // 4 + 1)
    size = len(data)
    return (int.from_bytes(data, "big") ^ int.from_bytes(key[:size], "big")).to_bytes(size, "big")


class WebSocket:
    """One end of a WebSocket connection. A client masks what it sends with four bytes of `random`."""

    def __init__(self, *, client: bool, random: Callable[[int], bytes]) -> None:
        self._client = client
        self._random = random
        self._held = bytearray()  # a head, or the payload of a control frame
        self._head = True
        self._opcode = 0
        self._final = False
        self._left = 0  # of the frame at hand
        self._mask = b""
        self._offset = 0
        self._in_message = False  # a message has begun and not ended
        self._message_start = False  # and no piece of it was passed on
        self._finished = False
        self._closing = False  # we have sent a close
        self._out = bytearray()

    def take(self) -> bytes:
        """The bytes to send now; the queue is empty afterwards."""
        data = bytes(self._out)
        self._out.clear()
        return data

    @property
    def held(self) -> int:
        """Bytes that were received and not passed on."""
        return len(self._held)

    def receive(self, data: bytes) -> list[WebSocketEvent]:
        """The events of these bytes; none after the end."""
        events: list[WebSocketEvent] = []
        if self._finished:
            return events
        try:
            for event in self._read(data):
                events.append(event)
                if isinstance(event, WebSocketClosed):
                    break
        except _BrokenError as error:
            self._finished = True
            self.close(PROTOCOL_ERROR, str(error))
            events.append(WebSocketFailed(str(error)))
        return events

    def message(self, data: bytes) -> None:
        """Queue one binary message. Nothing is queued after a close."""
        if not self._closing:
            self._frame(BINARY, data)

    def ping(self, data: bytes = b"") -> None:
        """Queue a ping. Nothing is queued after a close."""
        if not self._closing:
            self._frame(PING, data)

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Queue a close frame, once; a long reason is cut."""
        if not self._closing:
            text = reason.encode()[:_REASON_LIMIT].decode(errors="ignore").encode()
            self._frame(CLOSE, code.to_bytes(2, "big") + text)
            self._closing = True

    def _frame(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        bit = 0x80 if self._client else 0
        if size < 126:
            head = struct.pack(">BB", 0x80 | opcode, bit | size)
        elif size < 65536:
            head = struct.pack(">BBH", 0x80 | opcode, bit | 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, bit | 127, size)
        self._out += head
        if self._client:
            mask = self._random(4)
            self._out += mask
            payload = apply_mask(payload, mask)
        self._out += payload

    def _read(self, data: bytes) -> Iterator[WebSocketEvent]:
        at = 0
        while at < len(data):
            if self._head:
                self._held += data[at : at + 1]
                at += 1
                if len(self._held) == self._head_size():
                    yield from self._on_head()
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            unmasked = apply_mask(piece, self._mask, self._offset) if self._mask else piece
            self._left -= len(piece)
            self._offset += len(piece)
            if self._opcode >= CLOSE:
                self._held += unmasked
                if not self._left:
                    yield from self._on_control()
            else:
                yield self._make_piece(unmasked)

    def _head_size(self) -> int:
        """How long the head is, as far as is known; _BrokenError at once if its first bytes are wrong."""
        held = self._held
        if len(held) < 2:
            self._check_opcode(held[0])
            return 2
        size = held[1] & 0x7F
        if bool(held[1] & 0x80) is self._client:
            raise _BrokenError("a server masked its frame" if self._client else "a client did not mask its frame")
        if held[0] & 0x0F >= CLOSE and size > _CONTROL_LIMIT:
            raise _BrokenError(f"a control frame has more than {_CONTROL_LIMIT} bytes")
        return 2 + _EXTRA.get(size, 0) + (0 if self._client else 4)

    def _check_opcode(self, first: int) -> None:
        opcode, final = first & 0x0F, bool(first & 0x80)
        if first & 0x70:
            raise _BrokenError("a frame has bits set that nobody agreed on")
        if opcode not in _KNOWN:
            raise _BrokenError(f"a frame has opcode {opcode}")
        if opcode >= CLOSE:
            if not final:
                raise _BrokenError("a control frame is cut into fragments")
        elif (opcode == CONTINUATION) is not self._in_message:
            raise _BrokenError("a message goes on that did not begin, or begins before the last one ended")

    def _on_head(self) -> Iterator[WebSocketEvent]:
        """Handle a complete head."""
        held = bytes(self._held)
        self._held.clear()
        self._opcode, self._final = held[0] & 0x0F, bool(held[0] & 0x80)
        size, at = held[1] & 0x7F, 2
        if extra := _EXTRA.get(size):
            size = int.from_bytes(held[2 : 2 + extra], "big")
            at += extra
        if size >> 63:
            raise _BrokenError("a frame says that it has more bytes than there can be")
        self._mask = held[at:]
        self._offset = 0
        self._left = size
        self._head = False
        if self._opcode in (TEXT, BINARY):
            self._in_message = self._message_start = True
        if not size:
            if self._opcode >= CLOSE:
                yield from self._on_control()
            else:
                yield self._make_piece(b"")

    def _make_piece(self, data: bytes) -> MessagePiece:
        ended = not self._left
        self._head = ended
        first, self._message_start = self._message_start, False
        last = ended and self._final
        if last:
            self._in_message = False
        return MessagePiece(data, first, last)

    def _on_control(self) -> Iterator[WebSocketEvent]:
        payload = bytes(self._held)
        self._held.clear()
        self._head = True
        if self._opcode == PING:
            if not self._closing:
                self._frame(PONG, payload)
        elif self._opcode == PONG:
            yield PongReceived(payload)
        else:
            yield self._on_close(payload)

    def _on_close(self, payload: bytes) -> WebSocketClosed:
        if len(payload) == 1:
            raise _BrokenError("a close frame has half a code")
        code = int.from_bytes(payload[:2], "big") if payload else NO_STATUS
        if payload and not (NORMAL <= code < NO_STATUS - 1 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
            raise _BrokenError(f"a close frame has code {code}")
        self._finished = True
        # Without a code the answer has none either; ours is the one for an orderly end.
        self.close(code if payload else NORMAL)
        return WebSocketClosed(code, payload[2:].decode(errors="replace"))
