"""HTTP/1.1 on one connection of the test API server, by h11: requests in, answers or endless lines out."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import h11

from tests.support.apiserver.paths import split_target

_CHUNK = 65536
_MOST_BODY = 4 << 20


class Request(NamedTuple):
    """What came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class BrokenError(Exception):
    """The connection is over: the client left, or is to believe that we did."""


class HttpConnection:
    """One client. Errors of the transport and of the protocol are `BrokenError`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        self._head_only = False

    @property
    def certificate(self) -> str:
        """The common name of the client's certificate, or nothing."""
        subject = (self._writer.get_extra_info("peercert") or {}).get("subject", ())
        return next((value for part in subject for key, value in part if key == "commonName"), "")

    async def next_request(self) -> Request | None:
        """None when the client is done."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > _MOST_BODY:
                raise BrokenError("the body is too large")
        self._head_only = head.method == b"HEAD"
        path, query = split_target(head.target.decode("latin-1"))
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers}
        return Request(head.method.decode("latin-1"), path, query, headers, bytes(body))

    async def _next_event(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
                self._http.receive_data(await self._reader.read(_CHUNK))
        except h11.RemoteProtocolError as error:
            await self._refuse()
            raise BrokenError(str(error)) from None
        except (OSError, h11.ProtocolError) as error:
            raise BrokenError(str(error)) from None
        return event

    async def _refuse(self) -> None:
        """Say that it was no HTTP. Clients that began with TLS take that for a sign to go on without."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            refusal = h11.Response(status_code=400, headers=[("content-length", "0"), ("connection", "close")])
            await self._write(self._http.send(refusal))

    async def answer(
        self, code: int, body: Any, headers: Mapping[str, str] | None = None, *, truncated: bool = False
    ) -> bool:
        """Send a whole answer, or half of one and break off. False if no other request can follow."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
        said = {"content-type": "application/json", **(headers or {}), "content-length": str(len(raw))}
        data = self._http.send(h11.Response(status_code=code, headers=list(said.items()))) or b""
        if truncated:
            await self._write(data + raw[: len(raw) // 2])
            raise BrokenError("half an answer was wanted")
        if raw and not self._head_only:
            data += self._http.send(h11.Data(data=raw)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        await self._write(data)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def begin_lines(self) -> None:
        """The head of an answer without an end."""
        headers = [("content-type", "application/json"), ("transfer-encoding", "chunked")]
        await self._write(self._http.send(h11.Response(status_code=200, headers=headers)) or b"")

    async def line(self, data: bytes) -> None:
        """One more part of it."""
        await self._write(self._http.send(h11.Data(data=data)) or b"")

    async def end_lines(self) -> bool:
        """Its end. False if no other request can follow."""
        await self._write(self._http.send(h11.EndOfMessage()) or b"")
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def gone(self) -> None:
        """Return when the client leaves. A client that watches has nothing more to say."""
        try:
            await self._reader.read(1)
        except OSError:
            return

    async def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise BrokenError(str(error)) from None

    def close(self) -> None:
        """What was written still goes out."""
        self._writer.close()

    def abort(self) -> None:
        """Nothing more goes out."""
        self._writer.transport.abort()
