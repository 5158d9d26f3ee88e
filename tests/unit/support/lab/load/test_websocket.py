"""WebSocket frames, and the exec channels over a small real server."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.lab.load.websocket import (
    ACCEPT_GUID,
    BINARY,
    CLOSE,
    PROTOCOL,
    Frame,
    FrameReader,
    encode_frame,
    run_exec,
)
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Callable


def server_frame(opcode: int, payload: bytes) -> bytes:
    """A short final frame as a server sends it, without mask."""
    return struct.pack(">BB", 0x80 | opcode, len(payload)) + payload


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
def test_frames_of_all_length_forms(size: int) -> None:
    """What a client encodes has the length form its size needs and unmasks to the payload."""
    payload = bytes(n % 251 for n in range(size))
    mask = b"\x01\x02\x03\x04"
    encoded = encode_frame(BINARY, payload, mask)
    masked = encoded[len(encoded) - size :]
    assert bytes(byte ^ mask[n % 4] for n, byte in enumerate(masked)) == payload
    head = encoded[: len(encoded) - size - 4]
    unmasked = bytes([head[0], head[1] & 0x7F]) + head[2:] + payload
    assert FrameReader().feed(unmasked) == [Frame(BINARY, True, payload)]


def test_frames_cut_anywhere() -> None:
    """Frames come out whole however the bytes arrive."""
    stream = server_frame(BINARY, b"\x01hello") + server_frame(CLOSE, b"")
    reader = FrameReader()
    frames = [frame for n in range(len(stream)) for frame in reader.feed(stream[n : n + 1])]
    assert frames == [Frame(BINARY, True, b"\x01hello"), Frame(CLOSE, True, b"")]


def test_a_masked_server_frame_is_refused() -> None:
    """Only clients mask."""
    with pytest.raises(LabError, match="mask"):
        FrameReader().feed(encode_frame(BINARY, b"x", b"abcd"))


def serve_once(answer: Callable[[bytes], bytes]) -> str:
    """Accept one connection, answer its request, and close; returns the URL."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        with listener, listener.accept()[0] as connection:
            connection.sendall(answer(connection.recv(65536)))

    threading.Thread(target=work, name="websocket-server", daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/exec/token?x=1"


def upgraded(request: bytes, *frames: bytes) -> bytes:
    match = re.search(rb"Sec-WebSocket-Key: (\S+)", request)
    assert match is not None
    accept = base64.b64encode(hashlib.sha1(match[1] + ACCEPT_GUID).digest())
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " + accept
    return head + b"\r\nSec-WebSocket-Protocol: " + PROTOCOL.encode() + b"\r\n\r\n" + b"".join(frames)


def test_exec_collects_its_channels() -> None:
    """Output and status arrive by channel, the first frames even in the packet of the upgrade."""
    frames = [
        server_frame(BINARY, b"\x01out"),
        server_frame(BINARY, b"\x02err"),
        server_frame(BINARY, b"\x01put"),
        server_frame(BINARY, b'\x03{"status": "Success"}'),
        server_frame(CLOSE, b"\x03\xe8"),
    ]
    result = run_exec(serve_once(lambda request: upgraded(request, *frames)), timeout=5)
    assert (result.stdout, result.stderr, result.status) == (b"output", b"err", {"status": "Success"})


def test_a_refused_upgrade_is_told() -> None:
    """Any answer but 101 is an error that shows the answer."""
    url = serve_once(lambda _: b"HTTP/1.1 403 Forbidden\r\n\r\n")
    with pytest.raises(LabError, match="403 Forbidden"):
        run_exec(url, timeout=5)
