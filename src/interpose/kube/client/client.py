"""The API server over HTTP: every call of `kube.client.api.Api`, with errors that say whom we asked and why it failed.

Nothing is sent a second time by itself, with two exceptions that change nothing there: reading over a connection that
had been idle for too long, and a request that was refused with 401 while newer credentials are at hand.
Invariants: a request takes no longer than its timeout, credentials included. That an object or a kind is missing is
said only if the API server itself says so: whatever stands before it answers 404 too.
"""

import asyncio
import json
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from interpose.errors import ConfigError
from interpose.kube.client.access import Access
from interpose.kube.client.api import ApiError, Listed, Object, PatchKind, Resource, WatchEvent
from interpose.kube.client.credentials import CredentialSource, RequestCredentials
from interpose.kube.client.decode import (
    Lines,
    read_error,
    read_event,
    read_list,
    read_object,
    read_one,
    read_plurals,
    read_versions,
)
from interpose.net.http.client import HttpClient, HttpClientLimits, HttpRequest, HttpResponse, Streams
from interpose.net.http.connect import dial
from interpose.net.http.errors import UnreachableError

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
    """Implements `Api`. `requests` counts by verb and code; the code is "unreachable" where no usable answer came."""

    def __init__(
        self,
        access: Access,
        *,
        timeout: float = 10.0,
        user_agent: str = "interpose",
        limits: HttpClientLimits | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.access = access
        self.requests: Counter[tuple[str, str]] = Counter()
        self.last_answer: float | None = None  # when an answer or an event came last, by `clock`
        self.last_error = ""  # why the last request had no answer that counts; empty if it had one
        self._timeout = timeout
        self._agent = user_agent
        self._chance = chance
        self._clock = clock
        self._limits = limits or HttpClientLimits()
        self._credentials = CredentialSource(access)
        self._http = HttpClient(str(access.server), self._dial, limits=self._limits, clock=clock)

    async def close(self) -> None:
        """Close connections that are idle, end a credential program; whoever has a call under way ends it."""
        await self._credentials.close()
        await self._http.close()

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """One object, see `Api.get`."""
        path = resource.path(namespace=namespace, name=name)
        try:
            return await self._read("get", self._request("GET", path), lambda body: read_one(body, resource))
        except ApiError as error:
            if error.code == 404 and error.name != name:
                await self._check_absence(resource, error)
            raise

    async def list(self, resource: Resource, *, namespace: str = "", name: str = "") -> Listed:
        """All objects, or the one of this name, page by page."""
        items: list[Object] = []
        query = {"limit": str(_PAGE)} | _selector(name)
        for _ in range(_MAX_PAGES):
            request = self._request("GET", resource.path(namespace=namespace), query)
            try:
                page, following = await self._read("list", request, lambda body: read_list(body, resource))
            except ApiError as error:
                if error.code == 404:
                    await self._check_absence(resource, error)
                raise
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
            begun = asyncio.get_running_loop().time()
            with self._count_failures("watch"):
                answer = await self._answer("watch", request, stack, begun, _WATCH_HEAD)
                self._count_answer("watch", answer)
            lines = Lines(self._limits.body)
            while True:
                with self._count_failures(""):
                    data = await self._await_until(begun, lasting + _WATCH_MARGIN, answer.read())
                    whole = lines.feed(data)
                    if not data and lines.cut:
                        raise ValueError("the watch was cut in the middle of a line")
                if not data:
                    return
                self.last_answer = self._clock()
                for line in whole:
                    with self._count_failures(""):
                        event = read_event(line)
                    yield event

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """Create an object, see `Api.create`."""
        request = self._write("POST", resource.path(namespace=namespace), body)
        return await self._read("create", request, read_object)

    async def replace(self, resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        """Another content for an object."""
        request = self._write("PUT", resource.path(namespace=namespace, name=name), body)
        return await self._read("update", request, read_object)

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change parts of an object."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        request = self._write("PATCH", path, patch, kind.value)
        return await self._read("patch", request, read_object)

    def _request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> HttpRequest:
        server = self.access.server
        target = server.prefix + path + ("?" + urlencode(query, quote_via=quote) if query else "")
        headers = (
            ("Host", server.authority),
            ("User-Agent", self._agent),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        )
        return HttpRequest(method=method, target=target, headers=headers, again=method == "GET")

    def _write(self, method: str, path: str, body: Any, content_type: str = "application/json") -> HttpRequest:
        request = self._request(method, path, {"fieldManager": _MANAGER})
        data = json.dumps(body, separators=(",", ":"), default=_plain).encode()
        return replace(request, headers=(*request.headers, ("Content-Type", content_type)), body=data)

    async def _check_absence(self, resource: Resource, error: ApiError) -> None:
        """After a 404 that names no object: UnreachableError unless the server says that it has no such kind."""
        with suppress(ApiError):  # nothing is confirmed then
            if resource.group and not await self._has(resource):  # kinds of the core always exist
                return
        self.last_error = (
            f"{self.access.server}: this is no answer of an API server that has {resource.plural}: {error}"
        )
        raise UnreachableError(self.last_error)

    async def _has(self, resource: Resource) -> bool:
        """Whether the server says that it has a kind, which is none of the core."""
        if resource.api_version not in await self._read("get", self._request("GET", "/apis"), read_versions):
            return False
        path = f"/apis/{quote(resource.group)}/{quote(resource.version)}"
        return resource.plural in await self._read("get", self._request("GET", path), read_plurals)

    async def _read(self, verb: str, request: HttpRequest, read: Callable[[bytes], _T]) -> _T:
        """A whole answer and what it means."""
        begun = asyncio.get_running_loop().time()
        async with AsyncExitStack() as stack:
            with self._count_failures(verb):
                answer = await self._answer(verb, request, stack, begun, self._timeout)
                meaning = read(await self._await_until(begun, self._timeout, answer.read_all()))
            self._count_answer(verb, answer)
            return meaning

    async def _answer(
        self, verb: str, request: HttpRequest, stack: AsyncExitStack, begun: float, timeout: float
    ) -> HttpResponse:
        """An answer that is no error, in the care of `stack`."""
        credentials = await self._await_credentials(begun, timeout, self._credentials.current())
        answer = await self._send(request, credentials, stack, begun, timeout)
        if answer.status == 401:
            newer = await self._await_credentials(begun, timeout, self._credentials.renew(credentials))
            if newer is not None:
                self._count_answer(verb, answer)
                await stack.aclose()
                answer = await self._send(request, newer, stack, begun, timeout)
        if answer.status >= 400:
            body = await self._await_until(begun, timeout, answer.read_all())
            self._count_answer(verb, answer)
            raise read_error(answer.status, answer.headers, body)
        return answer

    async def _send(
        self, request: HttpRequest, credentials: RequestCredentials, stack: AsyncExitStack, begun: float, timeout: float
    ) -> HttpResponse:
        if credentials.authorization:
            request = replace(request, headers=(*request.headers, ("Authorization", credentials.authorization)))
        answer = stack.enter_async_context(self._http.send_request(request, credentials.context))
        return await self._await_until(begun, timeout, answer)

    async def _await_until(self, begun: float, timeout: float, wanted: Awaitable[_T], awaited: str = "answer") -> _T:
        try:
            async with asyncio.timeout_at(begun + timeout):
                return await wanted
        except TimeoutError:
            raise UnreachableError(f"{self.access.server}: no {awaited} within {timeout:g} s") from None

    async def _await_credentials(self, begun: float, timeout: float, wanted: Awaitable[_T]) -> _T:
        try:
            return await self._await_until(begun, timeout, wanted, "credentials")
        except ConfigError as error:
            raise UnreachableError(f"{self.access.server}: {error}") from None

    def _count_answer(self, verb: str, answer: HttpResponse) -> None:
        """An answer counts when it is whole; that of a watch, when it begins."""
        self.requests[verb, str(answer.status)] += 1
        if answer.status == 401:  # it is there, but not for us: we can neither learn nor tell anything
            self.last_error = f"{self.access.server}: our credentials are not accepted (401 Unauthorized)"
        else:
            self.last_error, self.last_answer = "", self._clock()

    @contextmanager
    def _count_failures(self, verb: str) -> Iterator[None]:
        """What has no usable answer is an UnreachableError and remembered; without a verb it was counted already."""
        try:
            yield
        except (UnreachableError, ValueError) as error:
            known = isinstance(error, UnreachableError)
            self.last_error = str(error) if known else f"{self.access.server}: {error}"
            if verb:
                self.requests[verb, "unreachable"] += 1
            raise UnreachableError(self.last_error) from None

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
