"""HTTP requests to registries: connections by address, TLS by the settings, redirects.

Invariants: an Authorization header goes only to the server it was made for, and a redirect never leads from HTTPS to
plain HTTP. Messages have addresses without their queries, which may contain credentials.
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

_MAX_ERRORS: Final = 5  # of an error document
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_MAX_REDIRECTS: Final = 5
_MAX_SERVERS: Final = 64  # with cached connections
_LIMITS: Final = HttpClientLimits(body=4 << 20, idle=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTimeouts:
    """Timeouts of a registry in seconds, and retries."""

    connect: float = 15.0
    answer: float = 60.0  # for the head of an answer
    stall: float = 60.0  # without a byte of its body
    least: int = 60 << 10  # bytes of its body in `stall` seconds
    tries: int = 5
    first_wait: float = 0.5
    longest_wait: float = 20.0


class RegistryTransport:
    """Connections to all servers, kept open for a while."""

    def __init__(self, *, timeouts: RegistryTimeouts, env: Mapping[str, str] | None = None) -> None:
        self._timeouts = timeouts
        self._env = os.environ if env is None else env
        self._clients: LruCache[Server, HttpClient] = LruCache(_MAX_SERVERS)
        self._contexts: LruCache[RegistryEndpoint, ssl.SSLContext] = LruCache(_MAX_SERVERS)

    async def close(self) -> None:
        """Close the connections to all registries."""
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
        """Send a request and follow redirects. UnreachableError without an answer; ValueError for a bad redirect."""
        for _ in range(_MAX_REDIRECTS + 1):
            server, target = split_url(url)
            async with self._request_once(endpoint, server, target, headers, authorization, form) as answer:
                location = answer.headers.get("location", "") if answer.status in _REDIRECTS else ""
                if not location:
                    yield RegistryReply(answer, self._timeouts, str(server))
                    return
                url = _redirect_target(url, location)
            if split_url(url)[0] != server:
                if form:
                    raise ValueError(f"{server}: it leads to another server, which would get our credentials")
                authorization = ""  # also if a later redirect leads back
        raise ValueError(f"{server}: more than {_MAX_REDIRECTS} redirects")

    @asynccontextmanager
    async def _request_once(
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
                async with asyncio.timeout(self._timeouts.answer):
                    answer = await stack.enter_async_context(client.send_request(request, context))
            except TimeoutError:
                raise UnreachableError(f"{server}: no answer within {self._timeouts.answer:g} s") from None
            yield answer

    async def _client(self, server: Server) -> HttpClient:
        client = self._clients.get(server)
        if client is None:
            proxy = proxy_from(self._env, server)
            dialler = partial(dial, server, timeout=self._timeouts.connect, proxy=proxy)
            client = HttpClient(str(server), dialler, limits=_LIMITS, redirects=True)
            for old in self._clients.put(server, client):
                await old.close()  # requests that are under way go on
        return client

    def _context(self, endpoint: RegistryEndpoint, server: Server) -> ssl.SSLContext | None:
        """TLS by the settings. The target of a redirect is trusted alike, but does not get our certificate."""
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
                context.load_default_certs()  # blobs are often on another server, with a public certificate
            self._contexts.put(endpoint, context)
        return context


class RegistryReply:
    """An answer of a registry, with timeouts for its body."""

    def __init__(
        self, answer: HttpResponse, timeouts: RegistryTimeouts, server: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.server = server
        self._answer = answer
        self._stall = timeouts.stall
        self._clock = clock
        self._rate = TransferRate(timeouts.least, timeouts.stall)

    async def read(self) -> bytes:
        """The next part of the body; empty after the last."""
        begun = self._clock()
        try:
            async with asyncio.timeout(self._stall):
                data = await self._answer.read()
        except TimeoutError:
            raise UnreachableError(f"{self.server}: nothing came for {self._stall:g} s") from None
        if not self._rate.keeps_up(len(data), self._clock() - begun) and data:
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

    async def error_message(self) -> str:
        """The text of an error answer with its status, on one line."""
        try:
            text = shortened(error_text(await self.read_all(1 << 16)))
        except (UnreachableError, ValueError):
            text = ""
        return f"status {self.status}" + (f": {text}" if text else "")


def split_url(url: str) -> tuple[Server, str]:
    """Split a URL into the server, and the target of a request."""
    parts = urlsplit(url)
    server = parse_server(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"{server}: what it leads to is not an address")
    return server, target


def _host(server: Server) -> str:
    """The Host header, without a default port: signed URLs are signed that way."""
    usual = {"https": 443, "http": 80}[server.scheme]
    return server.authority.removesuffix(f":{server.port}") if server.port == usual else server.authority


def _redirect_target(url: str, location: str) -> str:
    target = urljoin(url, location)
    before, after = urlsplit(url), urlsplit(target)
    if after.scheme not in ("https", "http") or (before.scheme == "https" and after.scheme == "http"):
        raise ValueError(
            f"{before.scheme}://{before.hostname}: it leads to {after.scheme}://{after.hostname}: not safe"
        )
    return target


class TransferRate:
    """Checks for at least `least` bytes in each `seconds` of waiting. Time spent on processing does not count."""

    def __init__(self, least: int, seconds: float) -> None:
        self._least = least
        self._seconds = seconds
        self._received = 0
        self._waited = 0.0

    def keeps_up(self, size: int, waited: float) -> bool:
        """Count `size` bytes received after `waited` seconds; False if the rate is too low."""
        self._received += size
        self._waited += waited
        if self._waited < self._seconds:
            return True
        enough = self._received >= self._least
        self._received, self._waited = 0, 0.0
        return enough


def error_text(body: bytes) -> bytes:
    """The messages of an error document, with their codes; any other body as it is."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    errors = document.get("errors") if isinstance(document, dict) else None
    if not isinstance(errors, list):
        return body
    messages = [message for error in errors[:_MAX_ERRORS] if (message := _error_message(error))]
    return "; ".join(messages).encode("utf-8", "replace") or body


def _error_message(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    code, message = (text if isinstance(text := error.get(key), str) else "" for key in ("code", "message"))
    if not message:
        return code
    same = message.lower().replace(" ", "_") == code.lower()
    return message if same or not code else f"{code}: {message}"
