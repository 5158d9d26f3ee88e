"""Requests, responses and the choice of a handler. Pure values; no socket, no HTTP library."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from socket import socket
from typing import NamedTuple, TypeAlias

from interpose.host.peer_credentials import PeerCredentials

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class BadRequestError(Exception):
    """The client sent something a handler cannot use: answered as 400 with this text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """One request. `query` keeps order and repeats; `rest` is what `*` matched in the route's path.

    `peer` is None on an address, where anyone who reaches it may ask; `certified` says that a client there has shown a
    certificate that we trust.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    peer: PeerCredentials | None = None
    certified: bool = False
    rest: str = ""

    def json(self) -> object:
        """The body as JSON; if it is none, the client gets a 400."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise BadRequestError(f"the body is not JSON: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResponse:
    """One answer, complete in memory."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hijack:
    """An answer that takes the connection over.

    `callback` gets the raw, connected, non-blocking socket and owns it for the time of the call; the server closes it
    afterwards. No HTTP answer is sent, and bytes the client sent behind its request are lost: only for clients that
    send one request and wait.
    """

    callback: Callable[[socket], Awaitable[None]]


Handler: TypeAlias = Callable[[ServerRequest], Awaitable[ServerResponse | Hijack]]
# (method, path) to handler. A path that ends in "/*" matches one or more further segments.
RouteTable: TypeAlias = Mapping[tuple[str, str], Handler]


def text_response(text: str, status: int = 200) -> ServerResponse:
    """An answer for people and probes."""
    return ServerResponse(status=status, body=text.encode(), headers={"x-content-type-options": "nosniff"})


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> ServerResponse:
    """An answer for programs; what JSON does not know is written as text."""
    body = json.dumps(value, default=str).encode() + b"\n"
    return ServerResponse(status=status, body=body, content_type=JSON, headers=headers or {})


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> ServerResponse:
    """A failure as JSON: {"error": text}."""
    return json_response({"error": message}, status, headers)


class RouteMatch(NamedTuple):
    """The handler for a request and what its `*` stood for."""

    handler: Handler
    rest: str


class Router:
    """A table made ready for choosing: exact paths first, then the longest pattern, whatever their order in it."""

    def __init__(self, routes: RouteTable) -> None:
        self._exact: dict[str, dict[str, Handler]] = {}
        patterns: dict[str, dict[str, Handler]] = {}
        for (verb, path), handler in routes.items():
            if path.endswith("/*"):
                patterns.setdefault(path[:-1], {})[verb] = handler
            else:
                self._exact.setdefault(path, {})[verb] = handler
        self._patterns = sorted(patterns.items(), key=lambda item: -len(item[0]))

    def find(self, method: str, path: str) -> RouteMatch | ServerResponse:
        """Choose the handler, or the 404 or 405 answer. HEAD is served by the GET handler."""
        wanted = "GET" if method == "HEAD" else method
        allowed: set[str] = set()
        for handlers, rest in self._matching(path):
            if wanted in handlers:
                return RouteMatch(handlers[wanted], rest)
            allowed.update(handlers)
        if allowed:
            allow = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
            return error_response(405, f"{path} does not take {method}, only {allow}", {"allow": allow})
        hint = "; GET / lists what there is" if "/" in self._exact else ""
        return error_response(404, f"there is nothing at {path}{hint}")

    def _matching(self, path: str) -> Iterator[tuple[Mapping[str, Handler], str]]:
        if path in self._exact:
            yield self._exact[path], ""
        for prefix, handlers in self._patterns:
            if path.startswith(prefix) and len(path) > len(prefix):
                yield handlers, path[len(prefix) :]
