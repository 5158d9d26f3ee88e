"""A registry as a client sees it: manifests and blobs, with whatever it wants to see first.

Endpoints are tried in their order. What may get better by itself (a server that is away or has too much to do) is tried
again with growing pauses; a blob goes on where it was cut. Invariant: no message has a token or a password in it.
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
from interpose.node.runtime.images.registry.auth import Challenge, basic, parse_challenges, read_token, token_request
from interpose.node.runtime.images.registry.endpoints import Registries, RegistryEndpoint, is_local
from interpose.node.runtime.images.registry.http import RegistryReply, RegistryTimeouts, RegistryTransport, split_url
from interpose.node.runtime.images.registry.reference import ImageReference
from interpose.node.runtime.images.types import Auth, PullError

_T = TypeVar("_T")
_UNAVAILABLE: Final = "RegistryUnavailable"  # the beginning of a text that the kubelet knows
_MOST_TOKEN: Final = 1 << 20
_REMEMBERED: Final = 256  # tokens; and registries of which we know how they are reached
# They say that another try may go better.
_PASSING: Final = frozenset((408, 425, 429, 500, 502, 503, 504))


class BlobSink(Protocol):
    """Where a blob goes."""

    @property
    def size(self) -> int:
        """How much of it is there."""

    async def write(self, data: bytes) -> None:
        """More of it."""

    async def reset(self) -> None:
        """It begins anew."""

    async def check(self) -> None:
        """All of it is there; ValueError if it is something else."""


class _StatusError(Exception):
    """An answer that says no."""

    def __init__(self, status: int, message: str, *, wait: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wait = wait


class RegistryClient:
    """Pulls from all registries. One for a process: connections and tokens are shared."""

    def __init__(
        self,
        registries: Registries,
        *,
        patience: RegistryTimeouts | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._registries = registries
        self._patience = patience or RegistryTimeouts()
        self._exchange = RegistryTransport(patience=self._patience, env=env)
        self._clock = clock
        self._sleep = sleep
        self._working: LruCache[str, RegistryEndpoint] = LruCache(_REMEMBERED)
        self._tokens: LruCache[tuple[RegistryEndpoint, str, Auth | None], tuple[str, float]] = LruCache(_REMEMBERED)

    async def close(self) -> None:
        """Let go of connections."""
        await self._exchange.close()

    async def manifest(self, reference: ImageReference, wanted: str, auth: Auth | None) -> bytes:
        """The manifest or index with a tag or a digest; its digest is checked if that is what is wanted."""

        async def once(endpoint: RegistryEndpoint) -> bytes:
            headers = {"Accept": ", ".join(ACCEPTED)}
            async with self._ask(endpoint, reference, f"manifests/{wanted}", headers, auth) as reply:
                data = await reply.read_all(MAX_BYTES)
            if wanted.startswith("sha256:") and digest_of(data) != wanted:
                raise ValueError(f"{endpoint.server}: the content of manifest {wanted} has another digest")
            return data

        return await self._tried(reference, f"manifest {wanted}", once, auth)

    async def blob(self, reference: ImageReference, blob: Descriptor, auth: Auth | None, sink: BlobSink) -> None:
        """The bytes of a blob into a sink, checked. What one endpoint gave of it is not mixed with another's."""
        begun: RegistryEndpoint | None = None

        async def once(endpoint: RegistryEndpoint) -> None:
            nonlocal begun
            if begun not in (None, endpoint):
                await sink.reset()
            begun = endpoint
            headers = {"Accept": "*/*"}
            if sink.size:
                headers["Range"] = f"bytes={sink.size}-"
            async with self._ask(endpoint, reference, f"blobs/{blob.digest}", headers, auth) as reply:
                if sink.size and not _goes_on(reply, sink.size):
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

        await self._tried(reference, f"blob {blob.digest}", once, auth)

    async def _tried(
        self, reference: ImageReference, what: str, once: Callable[[RegistryEndpoint], Awaitable[_T]], auth: Auth | None
    ) -> _T:
        """Ask one endpoint after the other; the last one several times if that may help. PullError if none gives it."""
        problems: list[tuple[str, str]] = []  # who says it, and what
        away = missing = False  # as the last one says
        endpoints = self._endpoints(reference.domain)
        for endpoint in endpoints:
            away = missing = False
            try:
                found = await self._patiently(endpoint, once, 1 if endpoint is not endpoints[-1] else None)
            except UnreachableError as error:
                problems.append((str(endpoint.server), str(error)))
                away = True
            except _StatusError as error:
                problems.append((str(endpoint.server), str(error)))
                away, missing = error.status in _PASSING, error.status == 404
            except ValueError as error:
                problems.append((str(endpoint.server), str(error)))
            else:
                self._working.put(reference.domain, endpoint)
                return found
        prefix = f"{_UNAVAILABLE}: " if away else ""
        said = self._without_secrets(join_problems(problems), auth)  # not our own words: a password may be one of them
        raise PullError(f'{prefix}failed to pull image "{reference}": {what}: {said}', not_found=missing)

    def _endpoints(self, domain: str) -> tuple[RegistryEndpoint, ...]:
        """As the settings say. Without any, what worked last is not guessed again: this machine may have no TLS."""
        working = self._working.get(domain)
        if working is not None and domain not in self._registries.endpoints:
            return (working,)
        return self._registries.of(domain)

    def _without_secrets(self, text: str, auth: Auth | None) -> str:
        """Servers may repeat in an error what they were shown."""
        shown = [header.partition(" ")[2] for header, _ in self._tokens.values()]
        if auth is not None:
            shown += [auth.password, auth.auth, auth.identity_token, auth.registry_token]
            with suppress(ValueError):  # they cannot be read, and were not shown
                shown.append(basic(auth).partition(" ")[2])
        for secret in filter(None, shown):
            text = text.replace(secret, "***")
        return text

    async def _patiently(
        self, endpoint: RegistryEndpoint, once: Callable[[RegistryEndpoint], Awaitable[_T]], tries: int | None
    ) -> _T:
        backoff = Backoff(self._patience.first_wait, self._patience.longest_wait, random=random.random)
        for left in reversed(range(tries or self._patience.tries)):
            try:
                return await once(endpoint)
            except UnreachableError:
                if not left:
                    raise
                wait = backoff.next()
            except _StatusError as error:
                if not left or error.status not in _PASSING:
                    raise
                wait = backoff.next(error.wait)
            await self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _ask(
        self,
        endpoint: RegistryEndpoint,
        reference: ImageReference,
        path: str,
        headers: Mapping[str, str],
        auth: Auth | None,
    ) -> AsyncIterator[RegistryReply]:
        """A good answer. A registry that wants to see something first is shown it, once."""
        url = f"{endpoint.server}/v2/{reference.path}/{path}"
        scope = f"repository:{reference.path}:pull"
        authorization = self._remembered(endpoint, scope, auth)
        for last in (False, True):
            challenges: tuple[Challenge, ...] = ()
            async with self._exchange.request(endpoint, url, headers=headers, authorization=authorization) as reply:
                if reply.status in (200, 206):
                    yield reply
                    return
                words = await reply.words()
                if reply.status != 401 or last:
                    raise _refused(reply, words)
                challenges = parse_challenges(reply.headers.get("www-authenticate", ""))
            authorization = await self._authorize(endpoint, scope, auth, challenges, words)

    def _remembered(self, endpoint: RegistryEndpoint, scope: str, auth: Auth | None) -> str:
        if auth is not None and auth.registry_token:
            return f"Bearer {auth.registry_token}"
        header, until = self._tokens.get((endpoint, scope, auth)) or ("", 0.0)
        return header if until > self._clock() else ""

    async def _authorize(
        self, endpoint: RegistryEndpoint, scope: str, auth: Auth | None, challenges: tuple[Challenge, ...], words: str
    ) -> str:
        """What to show next; _StatusError with 401 if there is nothing."""
        by_scheme = {challenge.scheme: challenge for challenge in reversed(challenges)}
        key = (endpoint, scope, auth)
        if "bearer" in by_scheme and not (auth is not None and auth.registry_token):
            token, seconds = await self._token(endpoint, by_scheme["bearer"], auth, scope)
            self._tokens.put(key, (f"Bearer {token}", self._clock() + seconds))
            return f"Bearer {token}"
        if "basic" in by_scheme and auth is not None and (header := basic(auth)):
            self._tokens.put(key, (header, float("inf")))
            return header
        raise _StatusError(401, f"{endpoint.server}: authorization failed: {words}")

    async def _token(
        self, endpoint: RegistryEndpoint, challenge: Challenge, auth: Auth | None, scope: str
    ) -> tuple[str, float]:
        request = token_request(challenge, auth, scope=scope)
        server, _ = split_url(request.url)
        secret = bool(request.authorization or request.form)
        plain = server.scheme == "http" and endpoint.server.scheme == "https"
        # A registry on this machine may have a giver of tokens there, too; another one has no business here.
        if secret and plain and not (is_local(server.host) and is_local(endpoint.server.host)):
            raise ValueError(f"{endpoint.server}: it wants credentials over plain HTTP at {server}")
        asked = self._exchange.request(
            endpoint,
            request.url,
            headers={"Accept": "application/json"},
            authorization=request.authorization,
            form=request.form,
        )
        async with asked as reply:
            if reply.status != 200:
                words = await reply.words()
                status = reply.status if reply.status in _PASSING else 401
                raise _StatusError(status, f"{server}: authorization failed: no token was given: {words}")
            token = read_token(await reply.read_all(_MOST_TOKEN))
        return token.text, token.seconds


def join_problems(problems: Iterable[tuple[str, str]]) -> str:
    """What servers say, each thing once: `http://a and https://a: connection refused`."""
    by_words: dict[str, dict[str, None]] = {}
    for server, text in problems:
        words = text.removeprefix(f"{server}: ")
        by_words.setdefault(words, {})[server if words != text else ""] = None
    said = ((" and ".join(filter(None, servers)), words) for words, servers in by_words.items())
    return "; ".join(f"{servers}: {words}" if servers else words for servers, words in said)


def _goes_on(reply: RegistryReply, size: int) -> bool:
    """Whether an answer is the rest that was asked for, and not all of it again."""
    return reply.status == 206 and reply.headers.get("content-range", "").startswith(f"bytes {size}-")


def _refused(reply: RegistryReply, words: str) -> _StatusError:
    after = reply.headers.get("retry-after", "")
    wait = float(after) if after.isascii() and after.isdecimal() and len(after) < 6 else None
    if reply.status in (401, 403):
        words = f"authorization failed: {words}"
    return _StatusError(reply.status, f"{reply.server}: {words}", wait=wait)
