"""HTTP/1.1 as Go's server speaks it, on one connection: h11 reads requests, answers are written by hand.

Answers of up to 2 KiB have a length, longer ones come in chunks; headers are in alphabetical order, with Date and what
frames the body behind them. A request is read by an h11 connection of its own, so that a client may say anything
after it: the next request, early input of a stream, or nothing.
"""

import asyncio
import email.utils
import http
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from tests.support.docker.fake.documents import API, VERSION

_CHUNK: Final = 65536
_BUFFERED: Final = 2048
SAID: Final = {
    "Api-Version": API,
    "Docker-Experimental": "false",
    "Ostype": "linux",
    "Server": f"Docker/{VERSION} (linux)",
}
JSON: Final = {"Content-Type": "application/json"}
RAW_STREAM: Final = "application/vnd.docker.raw-stream"


class GoneError(Exception):
    """The connection is over."""


class Exchange:
    """One request with its answer."""

    def __init__(self, wire: "Wire", head: h11.Request) -> None:
        self.method = head.method.decode("latin-1")
        self.target = head.target.decode("latin-1")
        split = urlsplit(self.target)
        self.path = unquote(split.path)
        self.query = dict(reversed(parse_qsl(split.query, keep_blank_values=True)))
        self.headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers.raw_items()
        )
        self.http10 = head.http_version == b"1.0"
        self.status = 0
        self.keep = not self.http10 and self.header("connection").lower() != "close"
        self.said = SAID  # headers of every answer
        self.half = False  # the answer is to break off in the middle
        self.on_body: Callable[[bytes], None] = lambda _: None
        self.before_answer: Callable[[], Awaitable[None]] | None = None
        self._wire = wire

    def header(self, name: str) -> str:
        """The first value, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    def flag(self, name: str) -> bool:
        """A parameter that says yes, in the words Docker knows."""
        return self.query.get(name, "").strip().lower() not in ("", "0", "no", "false", "none")

    async def body(self) -> bytes:
        """All of it."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while (piece := await self._wire.piece()) is not None:
            self.on_body(piece)
            yield piece

    async def answer(self, status: int, document: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer: a document, bytes, or nothing."""
        await self._ready()
        data = b"" if document is None else document if isinstance(document, bytes) else encode(document)
        said = {
            **self.said,
            **(JSON if document is not None and not isinstance(document, bytes) else {}),
            **(headers or {}),
        }
        bodiless = status in (204, 304) or self.method == "HEAD"
        last: dict[str, str] = {}
        if not bodiless and len(data) > _BUFFERED and not self.http10:
            last["Transfer-Encoding"] = "chunked"
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
        elif not bodiless:
            last["Content-Length"] = str(len(data))
            if data and "Content-Type" not in said:  # Go guesses it when it writes the body
                last["Content-Type"] = "text/plain; charset=utf-8"
        head = self._head(status, said, last)
        whole = head if bodiless else head + data
        if self.half:
            await self._wire.send(whole[: len(head) + (len(whole) - len(head)) // 2])
            raise GoneError("half an answer was wanted")
        await self._wire.send(whole)

    async def begin(self, headers: Mapping[str, str] | None = None) -> None:
        """The head of an answer in chunks."""
        await self._ready()
        await self._wire.send(self._head(200, {**SAID, **(headers or {})}, {"Transfer-Encoding": "chunked"}))

    async def chunk(self, data: bytes) -> None:
        """A part of it, at once."""
        await self._wire.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """Its end."""
        await self._wire.send(b"0\r\n\r\n")

    async def hijack(self, said: Mapping[str, str]) -> None:
        """From here on the connection is a stream of bytes: 101 if the client asked for it, else a plain 200."""
        await self._ready()
        self.status = 101 if self.header("upgrade") else 200
        lines = ["HTTP/1.1 101 UPGRADED" if self.status == 101 else "HTTP/1.1 200 OK", f"Content-Type: {RAW_STREAM}"]
        if self.status == 101:
            lines += ["Connection: Upgrade", f"Upgrade: {self.header('upgrade')}"]
        lines += [f"{name}: {value}" for name, value in said.items()]
        self.keep = False
        await self._wire.send("\r\n".join([*lines, "", ""]).encode())

    async def read(self) -> bytes:
        """Bytes of a stream; nothing at its end."""
        return await self._wire.read()

    async def send(self, data: bytes) -> None:
        """Bytes as they are."""
        await self._wire.send(data)

    async def left(self) -> None:
        """Return when the client is done talking. Meanwhile nothing it says is read by others."""
        await self._wire.left()

    async def _ready(self) -> None:
        """The work is done; what a test planned for this moment happens once."""
        waiting, self.before_answer = self.before_answer, None
        if waiting is not None:
            await waiting()

    def _head(self, status: int, said: Mapping[str, str], last: Mapping[str, str]) -> bytes:
        self.status = status
        self.keep = self.keep and not self._wire.withheld
        version = "1.0" if self.http10 else "1.1"
        lines = [f"HTTP/{version} {status} {http.HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in sorted(said.items())]
        lines.append(f"Date: {email.utils.formatdate(usegmt=True)}")
        lines += [f"{name}: {value}" for name, value in last.items()]
        if not self.keep and not self.http10:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode()


class Wire:
    """One client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = b""
        self._ended = False
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)

    async def next(self) -> Exchange | None:
        """The next request; None when the client is done."""
        await self._skip_body()
        self._rest, self._ended = self._over()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        if self._rest:
            self._http.receive_data(self._rest)
            self._rest = b""
        if self._ended:
            self._http.receive_data(b"")
        event = await self._event()
        return Exchange(self, event) if isinstance(event, h11.Request) else None

    @property
    def withheld(self) -> bool:
        """The client waits for a word before it sends the body: it never gets one after the answer."""
        return self._http.they_are_waiting_for_100_continue

    async def piece(self) -> bytes | None:
        """A part of the body; None at its end."""
        if self._http.their_state is not h11.SEND_BODY:
            return None
        if self._http.they_are_waiting_for_100_continue:
            await self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def read(self) -> bytes:
        """Bytes behind the request."""
        self._rest, self._ended = self._over() if not self._rest else (self._rest, self._ended)
        if self._rest:
            data, self._rest = self._rest, b""
            self._http = h11.Connection(h11.SERVER)
            return data
        return b"" if self._ended else await self._reader.read(_CHUNK)

    async def left(self) -> None:
        """Until the client sends no more."""
        while not self._ended:
            data = await self._reader.read(_CHUNK)
            self._http.receive_data(data)
            self._ended = not data

    async def send(self, data: bytes) -> None:
        """At once."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise GoneError(str(error)) from None

    def finish(self) -> None:
        """Nothing more is sent; the client still may."""
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    def close(self) -> None:
        """What was written still goes out."""
        self._writer.close()

    def abort(self) -> None:
        """Nothing more goes out."""
        self._writer.transport.abort()

    async def _skip_body(self) -> None:
        while await self.piece() is not None:
            pass

    def _over(self) -> tuple[bytes, bool]:
        data, ended = self._http.trailing_data
        return data, ended or self._ended

    async def _event(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._reader.read(_CHUNK)
                self._ended = not data
                self._http.receive_data(data)
        except (OSError, h11.ProtocolError) as error:
            raise GoneError(str(error)) from None
        return event


def encode(document: Any) -> bytes:
    """As Go's encoder writes it: no spaces, a line feed at the end."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
