"""The protocol between shim and runtime, as bytes. No IO.

A control connection carries documents: four bytes of length, then JSON. A connection for exec or attach carries one
request and one answer like that, then frames: a channel, four bytes of length, data. Memory is bounded on both sides:
a message longer than its limit is a ProtocolError, which ends the connection.
"""

import json
import struct

PROTOCOL = 1
DOCUMENT_LIMIT = 8 << 20
FRAME_LIMIT = 1 << 16

STDIN, STDOUT, STDERR, RESULT, RESIZE = range(5)

# Words of a command that the shim replaces with files of its own.
PID_FILE = "@pid-file@"
LOG_FILE = "@log-file@"
PROCESS_FILE = "@process-file@"
CONSOLE_SOCKET = "@console-socket@"

_LENGTH = struct.Struct(">I")
_FRAME = struct.Struct(">BI")
FRAME_HEAD = _FRAME.size


class ProtocolError(Exception):
    """The other side violates the protocol."""


def document(value: dict[str, object]) -> bytes:
    """Encode a document, with its length."""
    text = json.dumps(value, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text


def frame(channel: int, data: bytes) -> bytes:
    """Encode a frame; its data is at most FRAME_LIMIT long. A frame without data ends the channel."""
    return _FRAME.pack(channel, len(data)) + data


def take_document(buffer: bytearray) -> dict[str, object] | None:
    """Remove the first document from the buffer; None if it is not complete yet."""
    if len(buffer) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(buffer)
    if length > DOCUMENT_LIMIT:
        raise ProtocolError(f"a document of {length} bytes, {DOCUMENT_LIMIT} are allowed")
    end = _LENGTH.size + length
    if len(buffer) < end:
        return None
    try:
        value = json.loads(bytes(buffer[_LENGTH.size : end]))
    except ValueError as error:
        raise ProtocolError(f"not JSON: {error}") from None
    del buffer[:end]
    if not isinstance(value, dict):
        raise ProtocolError("a document that is not an object")
    return value


def frame_head(head: bytes) -> tuple[int, int]:
    """Channel and data length of a frame, from its first FRAME_HEAD bytes."""
    channel, length = _FRAME.unpack(head)
    if length > FRAME_LIMIT:
        raise ProtocolError(f"a frame of {length} bytes, {FRAME_LIMIT} are allowed")
    return channel, length


def take_frame(buffer: bytearray) -> tuple[int, bytes] | None:
    """Remove the first frame from the buffer; None if it is not complete yet."""
    if len(buffer) < _FRAME.size:
        return None
    channel, length = frame_head(bytes(buffer[: _FRAME.size]))
    end = _FRAME.size + length
    if len(buffer) < end:
        return None
    data = bytes(buffer[_FRAME.size : end])
    del buffer[:end]
    return channel, data
