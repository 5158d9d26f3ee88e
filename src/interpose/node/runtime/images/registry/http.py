"""Requests to registries over HTTP: connections by address, TLS as settings say, redirects.

Invariants: an Authorization header goes only to the server it was made for, and a redirect never leads from HTTPS to
plain HTTP. Messages name addresses without their queries, which may be as good as a password.
"""

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urljoin, urlsplit

from interpose import __version__
from interpose.errors import ConfigError
from interpose.net.http.address import Server, parse_server, proxy_from
from interpose.net.http.client import HttpClient, HttpClientLimits, HttpRequest, HttpResponse
from interpose.net.http.connect import dial
from interpose.net.http.errors import UnreachableError, shortened
from interpose.net.http.tls import Pem, make_context
from interpose.node.runtime.images.lru import LruCache
from interpose.node.runtime.images.registry.endpoints import RegistryEndpoint

_MOST_ERRORS: Final = 5  # of an error document
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MOST_REDIRECTS: Final = 5
_MOST_SERVERS: Final = 64  # that are remembered
_LIMITS: Final = HttpClientLimits(body=4 << 20, idle=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTimeouts:
    """How long a server may take, in seconds."""

    connect: float = 15.0
    answer: float = 60.0  # until the head of an answer is there
    stall: float = 60.0  # without a byte of its body
    least: int = 60 << 10  # bytes of its body in as long as that
    tries: int = 5
    first_wait: float = 0.5
    longest_wait: float = 20.0


class RegistryTransport:
    """Connections to all servers that were asked, kept for a while."""

    def __init__(self, *, patience: RegistryTimeouts, env: Mapping[str, str] | None = None) -> None:
        self._patience = patience
        self._env = os.environ if env is None else env
        self._clients: LruCache[Server, HttpClient] = LruCache(_MOST_SERVERS)
        self._contexts: LruCache[RegistryEndpoint, ssl.SSLContext] = LruCache(_MOST_SERVERS)

    async def close(self) -> None:
        """Let go of all connections."""
        for client in self._clients.clear():
            await client.close()

    @asynccontextmanager
    async def request(
        self,
        endpoint: RegistryEndpoint,
        url: str,
        *,
        headers: Mapping[str, str],
        authorization: str = "",
        form: bytes = b"",
    ) -> AsyncIterator["RegistryReply"]:
        """An answer, redirects followed. UnreachableError if there is none; ValueError for a redirect gone wrong."""
        for _ in range(_MOST_REDIRECTS + 1):
            server, target = split_url(url)
            async with self._ask_once(endpoint, server, target, headers, authorization, form) as answer:
                place = answer.headers.get("location", "") if answer.status in _REDIRECTS else ""
                if not place:
                    yield RegistryReply(answer, self._patience, str(server))
                    return
                url = _followed(url, place)
            if split_url(url)[0] != server:
                if form:
                    raise ValueError(f"{server}: it leads to another server, which would get our credentials")
                authorization = ""  # also if it leads back later
        raise ValueError(f"{server}: more than {_MOST_REDIRECTS} redirects")

    @asynccontextmanager
    async def _ask_once(
        self,
        endpoint: RegistryEndpoint,
        server: Server,
        target: str,
        headers: Mapping[str, str],
        secret: str,
        form: bytes,
    ) -> AsyncIterator[HttpResponse]:
        fields = [("Host", _host(server)), ("User-Agent", f"interpose/{__version__}"), *headers.items()]
        if secret:
            fields.append(("Authorization", secret))
        if form:
            fields.append(("Content-Type", "application/x-www-form-urlencoded"))
        method = "POST" if form else "GET"
        request = HttpRequest(method=method, target=target, headers=tuple(fields), body=form, again=not form)
        client, context = await self._client(server), self._context(endpoint, server)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._patience.answer):
                    answer = await stack.enter_async_context(client.send_request(request, context))
            except TimeoutError:
                raise UnreachableError(f"{server}: no answer within {self._patience.answer:g} s") from None
            yield answer

    async def _client(self, server: Server) -> HttpClient:
        client = self._clients.get(server)
        if client is None:
            proxy = proxy_from(self._env, server)
            dialler = partial(dial, server, timeout=self._patience.connect, proxy=proxy)
            client = HttpClient(str(server), dialler, limits=_LIMITS, redirects=True)
            for old in self._clients.put(server, client):
                await old.close()  # what it is doing now is not disturbed
        return client

    def _context(self, endpoint: RegistryEndpoint, server: Server) -> ssl.SSLContext | None:
        """TLS as settings say. Whoever the endpoint leads to is trusted alike, but does not see our certificate."""
        if server.scheme == "http":
            return None
        if server != endpoint.server:
            endpoint = replace(endpoint, certificate="", key="", server=server)
        context = self._contexts.get(endpoint)
        if context is None:
            try:
                context = make_context(
                    authorities=Pem(file=endpoint.ca),
                    insecure=endpoint.skip_verify,
                    certificate=Pem(file=endpoint.certificate),
                    key=Pem(file=endpoint.key),
                )
            except ConfigError as error:
                raise ValueError(str(error)) from None
            if endpoint.ca:
                context.load_default_certs()  # blobs are often elsewhere, with a certificate that everybody trusts
            self._contexts.put(endpoint, context)
        return context


class RegistryReply:
    """An answer whose body does not keep us waiting for ever."""

    def __init__(
        self, answer: HttpResponse, patience: RegistryTimeouts, server: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.server = server
        self._answer = answer
        self._stall = patience.stall
        self._clock = clock
        self._pace = TransferRate(patience.least, patience.stall)

    async def read(self) -> bytes:
        """The next part of the body; empty after the last."""
        begun = self._clock()
        try:
            async with asyncio.timeout(self._stall):
                data = await self._answer.read()
        except TimeoutError:
            raise UnreachableError(f"{self.server}: nothing came for {self._stall:g} s") from None
        if not self._pace.keeps_up(len(data), self._clock() - begun) and data:
            raise UnreachableError(f"{self.server}: too little came for {self._stall:g} s")
        return data

    async def read_all(self, limit: int) -> bytes:
        """The whole body; ValueError if it is too large."""
        body = bytearray()
        while data := await self.read():
            body += data
            if len(body) > limit:
                raise ValueError(f"{self.server}: the answer is larger than {limit} bytes")
        return bytes(body)

    async def words(self) -> str:
        """What an answer with an error says, on one line; the status if it says nothing."""
        try:
            text = shortened(error_text(await self.read_all(1 << 16)))
        except (UnreachableError, ValueError):
            text = ""
        return f"status {self.status}" + (f": {text}" if text else "")


def split_url(url: str) -> tuple[Server, str]:
    """The server of an address, and what it is asked for."""
    parts = urlsplit(url)
    server = parse_server(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"{server}: what it leads to is not an address")
    return server, target


def _host(server: Server) -> str:
    """Without the usual port: signed addresses are signed that way."""
    usual = {"https": 443, "http": 80}[server.scheme]
    return server.authority.removesuffix(f":{server.port}") if server.port == usual else server.authority


def _followed(url: str, place: str) -> str:
    there = urljoin(url, place)
    before, after = urlsplit(url), urlsplit(there)
    if after.scheme not in ("https", "http") or (before.scheme == "https" and after.scheme == "http"):
        raise ValueError(
            f"{before.scheme}://{before.hostname}: it leads to {after.scheme}://{after.hostname}: not safe"
        )
    return there


class TransferRate:
    """At least `least` bytes in each `seconds` of waiting. What is done with the bytes meanwhile does not count."""

    def __init__(self, least: int, seconds: float) -> None:
        self._least = least
        self._seconds = seconds
        self._came = 0
        self._waited = 0.0

    def keeps_up(self, size: int, waited: float) -> bool:
        """So many bytes came after so many seconds; whether that is enough."""
        self._came += size
        self._waited += waited
        if self._waited < self._seconds:
            return True
        enough = self._came >= self._least
        self._came, self._waited = 0, 0.0
        return enough


def error_text(body: bytes) -> bytes:
    """The messages of an error document, each with its code where it says more; any other body as it is."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    errors = document.get("errors") if isinstance(document, dict) else None
    if not isinstance(errors, list):
        return body
    found = [words for one in errors[:_MOST_ERRORS] if (words := _error_words(one))]
    return "; ".join(found).encode("utf-8", "replace") or body


def _error_words(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    code, message = (text if isinstance(text := error.get(key), str) else "" for key in ("code", "message"))
    if not message:
        return code
    same = message.lower().replace(" ", "_") == code.lower()
    return message if same or not code else f"{code}: {message}"
