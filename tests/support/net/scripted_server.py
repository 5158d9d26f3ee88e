"""An HTTP server that does what a test says, byte by byte: whole answers, halves of them, or none.

Invariant: whatever the script does, no connection outlives the server, and a script that fails fails the test.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.net.stream_server import StreamServer


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]  # names in lower case
    body: bytes


class Peer:
    """A client's connection, for the script. `number` counts connections from 1."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, asked: list[Asked]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._asked = asked
        self.number = number

    @property
    def certificate(self) -> Any:
        """What the client showed, decoded; None without TLS."""
        return self._writer.get_extra_info("peercert")

    async def request(self) -> Asked:
        """The next request; ConnectionError when the client has left."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            method, target, _version = lines[0].split(" ")
            headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines[1:] if line}
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except asyncio.IncompleteReadError:
            raise ConnectionResetError from None
        self._asked.append(Asked(method, target, headers, body))
        return self._asked[-1]

    async def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, value: object, status: int = 200, **headers: str) -> None:
        """A whole answer; bytes and text are sent as they are, anything else as JSON."""
        body = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else _json(value)
        await self.send(_head(status, {"content-length": str(len(body)), **headers}) + body)

    async def begin(self, status: int = 200) -> None:
        """The head of an answer whose body comes in chunks."""
        await self.send(_head(status, {"transfer-encoding": "chunked"}))

    async def chunk(self, value: object) -> None:
        """A part of the body: bytes as they are, anything else as a line of JSON."""
        data = value if isinstance(value, bytes) else _json(value) + b"\n"
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        """The end of a body in chunks."""
        await self.send(b"0\r\n\r\n")

    async def gone(self) -> None:
        """Until the client has closed."""
        with contextlib.suppress(OSError):
            while await self._reader.read(65536):
                pass

    def reset(self) -> None:
        """Break the connection as a machine that lost its memory does."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class ScriptedServer:
    """Runs a script for each connection; the connection is closed when the script ends."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self.tls = tls
        self._streams = StreamServer(self._connected, name="scripted")
        self._failures: list[Exception] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self.port = await self._streams.start(port=self.port, tls=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._streams.stop()
        if self._failures and kind is None:
            raise self._failures[0]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.script(Peer(reader, writer, self.connections, self.asked))
        except OSError:
            pass  # the client left
        except Exception as error:
            self._failures.append(error)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
