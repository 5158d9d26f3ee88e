"""The API server over HTTP: every call of `kube.api.Api`, with errors that say whom we asked and why it failed.

Nothing is sent a second time by itself, with two exceptions that change nothing there: reading over a connection that
had been idle for too long, and a request that was refused with 401 while newer credentials are at hand.
"""

import asyncio
import json
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from interpose.errors import ConfigError
from interpose.kube.access import Access
from interpose.kube.answers import Lines, read_error, read_event, read_list, read_object
from interpose.kube.api import Listed, Object, PatchKind, Resource, UnreachableError, WatchEvent
from interpose.kube.credentials import Credentials, Grant
from interpose.kube.dialing import dial
from interpose.kube.http import Answer, HttpClient, HttpLimits, Request, Streams

_PAGE: Final = 500
_MAX_PAGES: Final = 1000
# Servers end a watch after half an hour or more; sooner spreads the load when one of several servers comes back.
_WATCH_FROM: Final = 300.0
_WATCH_TO: Final = 600.0
# Seconds a server may be late in ending a watch, and those it may take for beginning one.
_WATCH_MARGIN: Final = 30.0
_WATCH_HEAD: Final = 30.0
_CONNECT_SHARE: Final = 0.75
_MANAGER: Final = "interpose"  # who changed a field, as `kubectl get --show-managed-fields` tells
_T = TypeVar("_T")


class KubeClient:
    """Implements `Api`. `requests` counts by verb and code; the code is "unreachable" where no answer came."""

    def __init__(
        self,
        access: Access,
        *,
        timeout: float = 10.0,
        user_agent: str = "interpose",
        limits: HttpLimits | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.access = access
        self.requests: Counter[tuple[str, str]] = Counter()
        self.last_answer: float | None = None  # when an answer or an event came last, by `clock`
        self.last_error = ""  # why the last request had no answer; empty if it had one
        self._timeout = timeout
        self._agent = user_agent
        self._chance = chance
        self._clock = clock
        self._limits = limits or HttpLimits()
        self._credentials = Credentials(access)
        self._http = HttpClient(str(access.server), self._dial, limits=self._limits, clock=clock)

    async def close(self) -> None:
        """Close connections that are idle; whoever has a call under way ends it."""
        await self._http.close()

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """One object."""
        return await self._object("get", self._request("GET", resource.path(namespace=namespace, name=name)))

    async def list(self, resource: Resource, *, namespace: str = "", name: str = "") -> Listed:
        """All objects, or the one of this name, page by page."""
        items: list[Object] = []
        query = {"limit": str(_PAGE)} | _selector(name)
        for _ in range(_MAX_PAGES):
            body = await self._body("list", self._request("GET", resource.path(namespace=namespace), query))
            with self._readable():
                page, following = read_list(body, resource)
            items += page.items
            if not following:
                return Listed(tuple(items), page.version)
            query["continue"] = following
        raise UnreachableError(f"{self.access.server}: the list of {resource.plural} does not end")

    async def watch(
        self, resource: Resource, *, version: str, namespace: str = "", name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """What happens after a version. Whoever stops early closes the iterator, and with it the connection."""
        lasting = int(_WATCH_FROM + self._chance() * (_WATCH_TO - _WATCH_FROM))
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(lasting)} | _selector(name)
        async with AsyncExitStack() as stack:
            request = self._request("GET", resource.path(namespace=namespace), query)
            answer, begun = await self._answer("watch", request, stack, _WATCH_HEAD)
            lines = Lines(self._limits.body)
            while data := await self._within(begun, lasting + _WATCH_MARGIN, answer.read()):
                self.last_answer = self._clock()
                with self._readable():
                    whole = lines.feed(data)
                for line in whole:
                    with self._readable():
                        event = read_event(line)
                    yield event
            if lines.cut:
                raise UnreachableError(f"{self.access.server}: the watch was cut in the middle of a line")

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """A new object."""
        return await self._object("create", self._write("POST", resource.path(namespace=namespace), body))

    async def replace(self, resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        """Another content for an object."""
        return await self._object("update", self._write("PUT", resource.path(namespace=namespace, name=name), body))

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change parts of an object."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._object("patch", self._write("PATCH", path, patch, kind.value))

    def _request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Request:
        server = self.access.server
        target = server.prefix + path + ("?" + urlencode(query, quote_via=quote) if query else "")
        headers = (
            ("Host", server.authority),
            ("User-Agent", self._agent),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        )
        return Request(method=method, target=target, headers=headers, again=method == "GET")

    def _write(self, method: str, path: str, body: Any, content_type: str = "application/json") -> Request:
        request = self._request(method, path, {"fieldManager": _MANAGER})
        data = json.dumps(body, separators=(",", ":"), default=_plain).encode()
        return replace(request, headers=(*request.headers, ("Content-Type", content_type)), body=data)

    async def _object(self, verb: str, request: Request) -> Object:
        body = await self._body(verb, request)
        with self._readable():
            return read_object(body)

    async def _body(self, verb: str, request: Request) -> bytes:
        async with AsyncExitStack() as stack:
            answer, begun = await self._answer(verb, request, stack, self._timeout)
            return await self._within(begun, self._timeout, answer.read_all())

    async def _answer(self, verb: str, request: Request, stack: AsyncExitStack, timeout: float) -> tuple[Answer, float]:
        """An answer that is no error, in the care of `stack`, and when it was asked for."""
        grant = await self._granted(self._credentials.grant())
        answer, begun = await self._sent(verb, request, grant, stack, timeout)
        if answer.status == 401 and (newer := await self._granted(self._credentials.renewed(grant))) is not None:
            await stack.aclose()
            answer, begun = await self._sent(verb, request, newer, stack, timeout)
        if answer.status >= 400:
            body = await self._within(begun, timeout, answer.read_all())
            raise read_error(answer.status, answer.headers, body)
        return answer, begun

    async def _sent(
        self, verb: str, request: Request, grant: Grant, stack: AsyncExitStack, timeout: float
    ) -> tuple[Answer, float]:
        begun = asyncio.get_running_loop().time()
        if grant.authorization:
            request = replace(request, headers=(*request.headers, ("Authorization", grant.authorization)))
        try:
            asked = stack.enter_async_context(self._http.ask(request, grant.context))
            answer = await self._within(begun, timeout, asked)
        except UnreachableError as error:
            self.requests[verb, "unreachable"] += 1
            self.last_error = str(error)
            raise
        self.requests[verb, str(answer.status)] += 1
        self.last_error, self.last_answer = "", self._clock()
        return answer, begun

    async def _within(self, begun: float, timeout: float, wanted: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout_at(begun + timeout):
                return await wanted
        except TimeoutError:
            raise UnreachableError(f"{self.access.server}: no answer within {timeout:g} s") from None

    async def _granted(self, wanted: Awaitable[_T]) -> _T:
        try:
            return await wanted
        except ConfigError as error:
            self.last_error = str(error)
            raise UnreachableError(f"{self.access.server}: {error}") from None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise UnreachableError(f"{self.access.server}: {error}") from None

    async def _dial(self, context: ssl.SSLContext | None) -> Streams:
        access = self.access
        # Less than all of the time, so that the error says that it is the connection.
        timeout = self._timeout * _CONNECT_SHARE
        return await dial(access.server, context, timeout=timeout, proxy=access.proxy, server_name=access.server_name)


def _selector(name: str) -> dict[str, str]:
    if not name:
        return {}
    value = name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    return {"fieldSelector": f"metadata.name={value}"}


def _plain(value: object) -> object:
    """Objects are mappings, not all of them dicts."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
