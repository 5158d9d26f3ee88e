"""The kubelet's list of pods: an optional source of labels and annotations beside the runtime's.

The runtime has the labels and annotations of a pod's start, the kubelet has the present ones. One request at a time, in
a thread, bounded in time and size. If the kubelet does not answer, the last good list stays in force; the problem is
logged once and counted. The token is read for every request, because it is replaced while the program runs.

A reconcile pass waits for the kubelet only briefly (`Polling`). An answer that comes later and differs from the one
before triggers another pass.
"""

import asyncio
import http.client
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from interpose.core.model.pod import Pod
from interpose.errors import ConfigError
from interpose.hooks.server.pods.pod_metadata import PodMetadata, overlay, parse_pods
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 32 * 1024 * 1024
_MAX_TOKEN: Final = 64 * 1024
_CHUNK: Final = 1 << 18
_PORTS: Final = MappingProxyType({"http": 10255, "https": 10250})
_HINTS: Final = MappingProxyType(
    {401: "; is the token right?", 403: "; may the token's owner get nodes/proxy?", 404: "; the path is usually /pods"}
)


class Scheme(StrEnum):
    """How the list is fetched. UNIX is HTTP over a socket, FILE is for tests and for who has the list elsewhere."""

    HTTP = "http"
    HTTPS = "https"
    UNIX = "unix"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletUrl:
    """A URL, taken apart. `host` is a file or socket where the scheme says so."""

    scheme: Scheme
    host: str
    port: int = 0
    target: str = "/pods"


def parse_url(url: str) -> KubeletUrl:
    """What a URL says; ConfigError if it cannot be used."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError as error:
        raise ConfigError(f"kubelet url {url!r}: {error}") from None
    if parts.scheme not in Scheme.__members__.values():
        raise ConfigError(f"kubelet url {url!r}: begins with none of {', '.join(f'{one}://' for one in Scheme)}")
    scheme = Scheme(parts.scheme)
    if parts.username is not None or parts.fragment:
        raise ConfigError(f"kubelet url {url!r}: can have neither a user nor a fragment")
    if scheme in (Scheme.UNIX, Scheme.FILE):
        path = unquote(parts.path)
        if parts.netloc or not path.startswith("/") or "\0" in path or parts.query:
            raise ConfigError(f"kubelet url {url!r}: needs an absolute path after {scheme}://")
        return KubeletUrl(scheme=scheme, host=path)
    if not host:
        raise ConfigError(f"kubelet url {url!r}: names no host")
    target = (parts.path if parts.path.strip("/") else "/pods") + (f"?{parts.query}" if parts.query else "")
    return KubeletUrl(scheme=scheme, host=host, port=port or _PORTS[scheme], target=target)


class KubeletPods:
    """The kubelet's pods by uid, as of the last refresh that worked."""

    def __init__(
        self,
        url: str,
        *,
        token_file: str = "",
        ca_file: str = "",
        insecure: bool = False,
        timeout: float = 3.0,
        limit: int = MAX_BYTES,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """ConfigError if these settings cannot be used together. `insecure` talks to a kubelet that proves nothing."""
        self._source = parse_url(url)
        secure = self._source.scheme is Scheme.HTTPS
        if token_file and not secure:
            raise ConfigError(f"kubelet token file {token_file}: {url} would send it unencrypted, https:// is needed")
        if (ca_file or insecure) and not secure:
            raise ConfigError(f"kubelet CA file or insecure: they mean nothing for {url}, only for https://")
        if ca_file and insecure:
            raise ConfigError(f"kubelet CA file {ca_file}: is of no use with insecure, which checks nothing")
        self.url = url
        self.pods: Mapping[str, PodMetadata] = MappingProxyType({})
        self.refreshes = 0
        self.failures = 0
        self.trouble = ""  # why the last refresh did not work; empty if it did
        self.refreshed_at: float | None = None  # on the clock of `now`
        self._token_file = token_file
        self._ca_file = ca_file
        self._insecure = insecure
        self._timeout = timeout
        self._limit = limit
        self._now = now
        self._late = f"no answer within {timeout:g} s"
        self._under_way: asyncio.Future[Mapping[str, PodMetadata] | str] | None = None

    async def refresh(self) -> bool:
        """Ask once; whether there is a new list. Never raises for what the kubelet, the network or files do."""
        if self._under_way is not None and not self._under_way.done():
            return self._failed("the request before has not ended yet")
        request = _Request(self._source, self._timeout, self._limit)
        self._under_way = asyncio.get_running_loop().run_in_executor(None, self._fetch, request)
        try:
            done, _ = await asyncio.wait((self._under_way,), timeout=self._timeout)
        finally:
            # A thread cannot be ended, but what it waits for can: it leaves soon, and nobody looks at what it brings.
            if not self._under_way.done():
                request.abort()
        if not done:
            return self._failed(self._late)
        outcome = self._under_way.result()
        if isinstance(outcome, str):
            return self._failed(outcome)
        self.pods = MappingProxyType(dict(outcome))
        self.refreshes += 1
        self.refreshed_at = self._now()
        if self.trouble:
            _log.info("Kubelet lists its pods again", extra={"kv": {"url": self.url, "pods": len(outcome)}})
        self.trouble = ""
        return True

    def _failed(self, why: str) -> bool:
        self.failures += 1
        # Told once: it is asked again and again.
        log = _log.debug if self.trouble else _log.warning
        log("Kubelet does not list its pods, the last list stays", extra={"kv": {"url": self.url, "err": why}})
        self.trouble = why
        return False

    def _fetch(self, request: "_Request") -> Mapping[str, PodMetadata] | str:
        """In a thread: the list, or what went wrong."""
        try:
            token = _token(self._token_file) if self._token_file else ""
            context = self._context() if self._source.scheme is Scheme.HTTPS else None
            return parse_pods(request.read(token, context))
        except TimeoutError:
            return self._late
        except (OSError, http.client.HTTPException, ValueError) as error:
            return str(error) or type(error).__name__
        except Exception as error:  # a bug of ours must not end whoever refreshes
            _log.exception("Failed to list the kubelet's pods", extra={"kv": {"url": self.url}})
            return f"{type(error).__name__}: {error}"

    def _context(self) -> ssl.SSLContext:
        # Made anew each time, so that a CA that was replaced counts.
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
        except OSError as error:
            raise ValueError(f"kubelet CA file {self._ca_file}: {error}") from None
        # Python 3.13 insists on extensions that the authorities of many clusters do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class _Request:
    """One request, which another thread can break off."""

    def __init__(self, source: KubeletUrl, timeout: float, limit: int) -> None:
        self._source = source
        self._timeout = timeout
        self._limit = limit
        self._socket: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """Whoever reads from the connection gets its end at once."""
        self._aborted = True
        if self._socket is not None:
            with suppress(OSError):  # it may be over already
                # Of the plain class: TLS has nothing to say here any more.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def connected(self, sock: socket.socket) -> None:
        """The connection has this socket (and, with TLS, later another one)."""
        self._socket = sock
        if self._aborted:
            self.abort()

    def read(self, token: str, context: ssl.SSLContext | None) -> bytes:
        """The document. Raises OSError, HTTPException or ValueError."""
        if self._source.scheme is Scheme.FILE:
            with Path(self._source.host).open("rb") as file:
                return self._bounded(file.read)
        connection = _Connection(self._source, self._timeout, context, self.connected)
        headers = {"Accept": "application/json", "Connection": "close"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request("GET", self._source.target, headers=headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                hint = _HINTS.get(response.status, "")
                raise ValueError(f"the kubelet answers {response.status} {response.reason}{hint}")
            return self._bounded(response.read1)
        finally:
            connection.close()

    def _bounded(self, read: Callable[[int], bytes]) -> bytes:
        chunks, size = [], 0
        while chunk := read(_CHUNK):
            size += len(chunk)
            if size > self._limit:
                raise ValueError(f"the list is larger than {self._limit} bytes")
            chunks.append(chunk)
        return b"".join(chunks)


class _Connection(http.client.HTTPConnection):
    """A connection over TCP, TLS or a unix socket that shows its sockets to somebody."""

    def __init__(
        self,
        source: KubeletUrl,
        timeout: float,
        context: ssl.SSLContext | None,
        connected: Callable[[socket.socket], None],
    ) -> None:
        unix = source.scheme is Scheme.UNIX
        super().__init__("localhost" if unix else source.host, None if unix else source.port, timeout=timeout)
        self._unix = source.host if unix else ""
        self._context = context
        self._connected = connected

    def connect(self) -> None:
        """Connect, and encrypt if that is wanted."""
        if self._unix:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._unix)
        else:
            super().connect()
        self._connected(self.sock)
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)
            self._connected(self.sock)


def _token(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_TOKEN + 1)
    except OSError as error:
        raise ValueError(f"kubelet token file {path}: {error.strerror}") from None
    text = raw.decode("ascii", "replace").strip()
    # The value itself is a secret: the message says what is wrong with it, never what it is.
    if not text or len(raw) > _MAX_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"kubelet token file {path}: holds no token")
    return text


_PATIENCE: Final = 0.25


class Polling:
    """One question at a time. `known` is what the source said last; `changed` is called if that is news that came late.

    `refresh` does not fail.
    """

    def __init__(
        self,
        refresh: Callable[[], Awaitable[object]],
        known: Callable[[], object],
        changed: Callable[[], None],
        *,
        name: str,
    ) -> None:
        self._refresh = refresh
        self._known = known
        self._changed = changed
        self._name = name
        self._tasks = TaskBag()
        self._asking: asyncio.Task[object] | None = None

    async def ask(self) -> None:
        """Wait a little for the latest."""
        if self._asking is None or self._asking.done():
            before = self._known()
            self._asking = self._tasks.spawn(self._ask(), name=self._name)
            done, _ = await asyncio.wait((self._asking,), timeout=_PATIENCE)
            if not done:
                self._asking.add_done_callback(lambda asked: self._answered(asked, before))
        else:
            await asyncio.wait((self._asking,), timeout=_PATIENCE)

    async def close(self) -> None:
        """Ask no more."""
        await self._tasks.cancel()

    async def _ask(self) -> object:
        return await self._refresh()

    def _answered(self, asked: "asyncio.Task[object]", before: object) -> None:
        # A source that is always late would otherwise cause one round after the other.
        if not asked.cancelled() and self._known() != before:
            self._changed()


class MetadataOverlay(NamedTuple):
    """How a pod looks with what is known of it, and whether the source has ever told anything."""

    of: Callable[[Pod], Pod]
    known: bool = True


class MetadataSource:
    """The kubelet, or nobody. `changed` is called when it told something new after a round stopped waiting for it."""

    def __init__(self, kubelet: KubeletPods | None, changed: Callable[[], None]) -> None:
        self._kubelet = kubelet
        self._polling = None
        if kubelet is not None:
            name = "ask the kubelet for its pods"
            self._polling = Polling(kubelet.refresh, lambda: kubelet.pods, changed, name=name)

    async def ask(self) -> MetadataOverlay:
        """What is known now, after a short wait for the latest."""
        if self._kubelet is None or self._polling is None:
            return MetadataOverlay(self.of)
        await self._polling.ask()
        return MetadataOverlay(self.of, known=self._kubelet.refreshed_at is not None)

    def of(self, pod: Pod) -> Pod:
        """A pod with what was told of it last."""
        return pod if self._kubelet is None else overlay(pod, self._kubelet.pods.get(pod.uid))

    async def close(self) -> None:
        """Ask no more."""
        if self._polling is not None:
            await self._polling.close()
