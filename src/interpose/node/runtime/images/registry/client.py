"""Registry client: manifests and blobs, with authorization.

Endpoints are tried in their order. Transient errors (a server that is down or overloaded) are retried with back-off; a
blob is resumed where it was cut. Invariant: no message has a token or a password in it.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol, TypeVar

from interpose.core.backoff import Backoff
from interpose.net.http.errors import UnreachableError
from interpose.node.runtime.images.lru import LruCache
from interpose.node.runtime.images.manifests import ACCEPTED, MAX_BYTES, Descriptor, digest_of
from interpose.node.runtime.images.registry.auth import (
    Challenge,
    basic_header,
    parse_challenges,
    read_token,
    token_request,
)
from interpose.node.runtime.images.registry.endpoints import Registries, RegistryEndpoint, is_local
from interpose.node.runtime.images.registry.http import RegistryReply, RegistryTimeouts, RegistryTransport, split_url
from interpose.node.runtime.images.registry.reference import ImageReference
from interpose.node.runtime.images.types import Auth, PullError

_T = TypeVar("_T")
_UNAVAILABLE: Final = "RegistryUnavailable"  # the beginning of a text that the kubelet recognises
_MAX_TOKEN: Final = 1 << 20
_CACHED: Final = 256  # tokens; and registries with a working endpoint
# Statuses after which a retry may succeed.
_TRANSIENT: Final = frozenset((408, 425, 429, 500, 502, 503, 504))


class BlobSink(Protocol):
    """The receiver of a blob."""

    @property
    def size(self) -> int:
        """The number of bytes received so far."""

    async def write(self, data: bytes) -> None:
        """Append bytes of the blob."""

    async def reset(self) -> None:
        """Drop all bytes: the blob begins again."""

    async def check(self) -> None:
        """Check the complete blob; ValueError if its digest is wrong."""


class _StatusError(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, message: str, *, wait: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wait = wait


class RegistryClient:
    """A client for all registries. One per process: connections and tokens are shared."""

    def __init__(
        self,
        registries: Registries,
        *,
        timeouts: RegistryTimeouts | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._registries = registries
        self._timeouts = timeouts or RegistryTimeouts()
        self._transport = RegistryTransport(timeouts=self._timeouts, env=env)
        self._clock = clock
        self._sleep = sleep
        self._working: LruCache[str, RegistryEndpoint] = LruCache(_CACHED)
        self._tokens: LruCache[tuple[RegistryEndpoint, str, Auth | None], tuple[str, float]] = LruCache(_CACHED)

    async def close(self) -> None:
        """Close the connections to all registries."""
        await self._transport.close()

    async def manifest(self, reference: ImageReference, wanted: str, auth: Auth | None) -> bytes:
        """The manifest or index of a tag or a digest; a digest is checked."""

        async def attempt(endpoint: RegistryEndpoint) -> bytes:
            headers = {"Accept": ", ".join(ACCEPTED)}
            async with self._request(endpoint, reference, f"manifests/{wanted}", headers, auth) as reply:
                data = await reply.read_all(MAX_BYTES)
            if wanted.startswith("sha256:") and digest_of(data) != wanted:
                raise ValueError(f"{endpoint.server}: the content of manifest {wanted} has another digest")
            return data

        return await self._try_endpoints(reference, f"manifest {wanted}", attempt, auth)

    async def blob(self, reference: ImageReference, blob: Descriptor, auth: Auth | None, sink: BlobSink) -> None:
        """Download a blob into a sink and check it. Bytes of different endpoints are not mixed."""
        last_endpoint: RegistryEndpoint | None = None

        async def attempt(endpoint: RegistryEndpoint) -> None:
            nonlocal last_endpoint
            if last_endpoint not in (None, endpoint):
                await sink.reset()
            last_endpoint = endpoint
            headers = {"Accept": "*/*"}
            if sink.size:
                headers["Range"] = f"bytes={sink.size}-"
            async with self._request(endpoint, reference, f"blobs/{blob.digest}", headers, auth) as reply:
                if sink.size and not _is_resumed(reply, sink.size):
                    await sink.reset()
                while data := await reply.read():
                    if sink.size + len(data) > blob.size:
                        raise ValueError(f"{reply.server}: blob {blob.digest} is larger than its manifest says")
                    await sink.write(data)
            if sink.size < blob.size:
                raise UnreachableError(f"{endpoint.server}: blob {blob.digest} ended after {sink.size} bytes")
            try:
                await sink.check()
            except ValueError as error:
                raise ValueError(f"{endpoint.server}: {error}") from None

        await self._try_endpoints(reference, f"blob {blob.digest}", attempt, auth)

    async def _try_endpoints(
        self,
        reference: ImageReference,
        subject: str,
        attempt: Callable[[RegistryEndpoint], Awaitable[_T]],
        auth: Auth | None,
    ) -> _T:
        """Try one endpoint after the other, the last one with retries. PullError if all fail."""
        problems: list[tuple[str, str]] = []  # server and message
        unavailable = missing = False  # by the answer of the last endpoint
        endpoints = self._endpoints(reference.domain)
        for endpoint in endpoints:
            unavailable = missing = False
            try:
                found = await self._retry(endpoint, attempt, 1 if endpoint is not endpoints[-1] else None)
            except UnreachableError as error:
                problems.append((str(endpoint.server), str(error)))
                unavailable = True
            except _StatusError as error:
                problems.append((str(endpoint.server), str(error)))
                unavailable, missing = error.status in _TRANSIENT, error.status == 404
            except ValueError as error:
                problems.append((str(endpoint.server), str(error)))
            else:
                self._working.put(reference.domain, endpoint)
                return found
        prefix = f"{_UNAVAILABLE}: " if unavailable else ""
        message = self._redact(join_problems(problems), auth)  # only the answers: a password may be a word of ours
        raise PullError(f'{prefix}failed to pull image "{reference}": {subject}: {message}', not_found=missing)

    def _endpoints(self, domain: str) -> tuple[RegistryEndpoint, ...]:
        """The endpoints of the settings. Without any, the last working one: a local registry may have no TLS."""
        working = self._working.get(domain)
        if working is not None and domain not in self._registries.endpoints:
            return (working,)
        return self._registries.of(domain)

    def _redact(self, text: str, auth: Auth | None) -> str:
        """Servers may repeat our credentials in an error."""
        secrets = [header.partition(" ")[2] for header, _ in self._tokens.values()]
        if auth is not None:
            secrets += [auth.password, auth.auth, auth.identity_token, auth.registry_token]
            with suppress(ValueError):  # they cannot be read, and were not sent
                secrets.append(basic_header(auth).partition(" ")[2])
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return text

    async def _retry(
        self, endpoint: RegistryEndpoint, attempt: Callable[[RegistryEndpoint], Awaitable[_T]], attempts: int | None
    ) -> _T:
        backoff = Backoff(self._timeouts.first_wait, self._timeouts.longest_wait, random=random.random)
        for left in reversed(range(attempts or self._timeouts.tries)):
            try:
                return await attempt(endpoint)
            except UnreachableError:
                if not left:
                    raise
                wait = backoff.next()
            except _StatusError as error:
                if not left or error.status not in _TRANSIENT:
                    raise
                wait = backoff.next(error.wait)
            await self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _request(
        self,
        endpoint: RegistryEndpoint,
        reference: ImageReference,
        path: str,
        headers: Mapping[str, str],
        auth: Auth | None,
    ) -> AsyncIterator[RegistryReply]:
        """A successful answer. A registry that asks for authorization gets it, once."""
        url = f"{endpoint.server}/v2/{reference.path}/{path}"
        scope = f"repository:{reference.path}:pull"
        authorization = self._cached_authorization(endpoint, scope, auth)
        for last in (False, True):
            challenges: tuple[Challenge, ...] = ()
            async with self._transport.request(endpoint, url, headers=headers, authorization=authorization) as reply:
                if reply.status in (200, 206):
                    yield reply
                    return
                message = await reply.error_message()
                if reply.status != 401 or last:
                    raise _status_error(reply, message)
                challenges = parse_challenges(reply.headers.get("www-authenticate", ""))
            authorization = await self._authorize(endpoint, scope, auth, challenges, message)

    def _cached_authorization(self, endpoint: RegistryEndpoint, scope: str, auth: Auth | None) -> str:
        if auth is not None and auth.registry_token:
            return f"Bearer {auth.registry_token}"
        header, until = self._tokens.get((endpoint, scope, auth)) or ("", 0.0)
        return header if until > self._clock() else ""

    async def _authorize(
        self, endpoint: RegistryEndpoint, scope: str, auth: Auth | None, challenges: tuple[Challenge, ...], message: str
    ) -> str:
        """The next Authorization header; _StatusError with 401 if there are no credentials."""
        by_scheme = {challenge.scheme: challenge for challenge in reversed(challenges)}
        key = (endpoint, scope, auth)
        if "bearer" in by_scheme and not (auth is not None and auth.registry_token):
            token, seconds = await self._token(endpoint, by_scheme["bearer"], auth, scope)
            self._tokens.put(key, (f"Bearer {token}", self._clock() + seconds))
            return f"Bearer {token}"
        if "basic" in by_scheme and auth is not None and (header := basic_header(auth)):
            self._tokens.put(key, (header, float("inf")))
            return header
        raise _StatusError(401, f"{endpoint.server}: authorization failed: {message}")

    async def _token(
        self, endpoint: RegistryEndpoint, challenge: Challenge, auth: Auth | None, scope: str
    ) -> tuple[str, float]:
        request = token_request(challenge, auth, scope=scope)
        server, _ = split_url(request.url)
        secret = bool(request.authorization or request.form)
        plain = server.scheme == "http" and endpoint.server.scheme == "https"
        # A registry on this machine may have its token server there, too; for another registry that is refused.
        if secret and plain and not (is_local(server.host) and is_local(endpoint.server.host)):
            raise ValueError(f"{endpoint.server}: it wants credentials over plain HTTP at {server}")
        response = self._transport.request(
            endpoint,
            request.url,
            headers={"Accept": "application/json"},
            authorization=request.authorization,
            form=request.form,
        )
        async with response as reply:
            if reply.status != 200:
                message = await reply.error_message()
                status = reply.status if reply.status in _TRANSIENT else 401
                raise _StatusError(status, f"{server}: authorization failed: no token was given: {message}")
            token = read_token(await reply.read_all(_MAX_TOKEN))
        return token.text, token.seconds


def join_problems(problems: Iterable[tuple[str, str]]) -> str:
    """The messages of servers, each text once: `http://a and https://a: connection refused`."""
    by_message: dict[str, dict[str, None]] = {}
    for server, text in problems:
        message = text.removeprefix(f"{server}: ")
        by_message.setdefault(message, {})[server if message != text else ""] = None
    joined = ((" and ".join(filter(None, servers)), message) for message, servers in by_message.items())
    return "; ".join(f"{servers}: {message}" if servers else message for servers, message in joined)


def _is_resumed(reply: RegistryReply, size: int) -> bool:
    """Whether an answer is the requested rest of a blob, and not the whole blob again."""
    return reply.status == 206 and reply.headers.get("content-range", "").startswith(f"bytes {size}-")


def _status_error(reply: RegistryReply, message: str) -> _StatusError:
    after = reply.headers.get("retry-after", "")
    wait = float(after) if after.isascii() and after.isdecimal() and len(after) < 6 else None
    if reply.status in (401, 403):
        message = f"authorization failed: {message}"
    return _StatusError(reply.status, f"{reply.server}: {message}", wait=wait)
