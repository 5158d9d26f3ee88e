"""A tiny WebSocket client, enough for `exec` and `attach` over the URL that a runtime hands out.

`encode_frame` and `FrameReader` are pure; `run_exec` is the only IO. The protocol is v4.channel.k8s.io: the first byte
of each message is the channel (1 stdout, 2 stderr, 3 the final status as JSON). v4 has no way to end stdin.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support.lab.processes import LabError

PROTOCOL = "v4.channel.k8s.io"
ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
STDOUT, STDERR, STATUS = 1, 2, 3


@dataclass(frozen=True)
class Frame:
    opcode: int
    final: bool
    payload: bytes


@dataclass(frozen=True)
class ExecResult:
    """What a program wrote, and the status document the runtime sent when it ended."""

    stdout: bytes
    stderr: bytes
    status: dict[str, Any]


def encode_frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """One final frame, masked as every client must."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head + mask + bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))


class FrameReader:
    """Cuts unmasked server frames out of a byte stream."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames = []
        while (parsed := self._next()) is not None:
            frame, used = parsed
            self._buffer = self._buffer[used:]
            frames.append(frame)
        return frames

    def _next(self) -> tuple[Frame, int] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 0x7F, 2
        if buffer[1] & 0x80:
            raise LabError("a server must not mask its frames")
        extra = {126: 2, 127: 8}.get(size, 0)
        if len(buffer) < start + extra:
            return None
        if extra:
            size = int.from_bytes(buffer[2 : 2 + extra], "big")
            start += extra
        if len(buffer) < start + size:
            return None
        frame = Frame(buffer[0] & 0x0F, bool(buffer[0] & 0x80), buffer[start : start + size])
        return frame, start + size


def run_exec(url: str, timeout: float = 20.0) -> ExecResult:
    """Open the URL, collect the channels until the server closes, and return them."""
    parts = urlsplit(url)
    outputs = {STDOUT: b"", STDERR: b"", STATUS: b""}
    with socket.create_connection((parts.hostname, parts.port), timeout=timeout) as sock:
        reader = FrameReader()
        pending = reader.feed(_handshake(sock, f"{parts.path}?{parts.query}", parts.netloc))
        message = b""
        while True:
            for frame in pending:
                if frame.opcode == CLOSE:
                    return _result(outputs)
                if frame.opcode == PING:
                    sock.sendall(encode_frame(PONG, frame.payload, os.urandom(4)))
                if frame.opcode in (CONTINUATION, TEXT, BINARY):
                    message += frame.payload
                    if frame.final and message:
                        outputs[message[0]] = outputs.get(message[0], b"") + message[1:]
                        message = b""
            data = sock.recv(65536)
            if not data:
                return _result(outputs)
            pending = reader.feed(data)


def _handshake(sock: socket.socket, target: str, host: str) -> bytes:
    """Upgrade; returns the bytes that came after the response head."""
    key = base64.b64encode(os.urandom(16))
    request = (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n"
        f"Sec-WebSocket-Key: {key.decode()}\r\n\r\n"
    )
    sock.sendall(request.encode())
    received = b""
    while b"\r\n\r\n" not in received:
        data = sock.recv(4096)
        if not data:
            raise LabError(f"no answer to the WebSocket upgrade, only {received!r}")
        received += data
    head, _, rest = received.partition(b"\r\n\r\n")
    accept = base64.b64encode(hashlib.sha1(key + ACCEPT_GUID, usedforsecurity=False).digest())
    if not head.startswith(b"HTTP/1.1 101") or accept not in head or PROTOCOL.encode() not in head:
        raise LabError(f"WebSocket upgrade refused: {head.decode(errors='replace')}")
    return rest


def _result(outputs: dict[int, bytes]) -> ExecResult:
    return ExecResult(outputs[STDOUT], outputs[STDERR], json.loads(outputs[STATUS] or b"{}"))
