"""The kubelet's list of pods: an optional source of labels and annotations beside the runtime's.

The runtime has the labels and annotations of a pod's start, the kubelet has the present ones. One request at a time,
bounded in time and size. If the kubelet does not answer, the last good list stays in force; the problem is logged once
and counted. The token is read for every request, because it is replaced while the program runs. Files are read and
lists are parsed in threads.

A reconcile pass waits for the kubelet only briefly (`Polling`). An answer that comes later and differs from the one
before triggers another pass.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

from interpose.core.model.pod import Pod
from interpose.errors import ConfigError
from interpose.hooks.server.pods.pod_metadata import PodMetadata, overlay, parse_pods
from interpose.net.http.address import Server
from interpose.net.http.client import HttpClient, HttpRequest, Streams
from interpose.net.http.connect import dial, dial_unix
from interpose.net.http.errors import UnreachableError
from interpose.net.http.tls import Pem, make_context
from interpose.tasks import TaskBag

T = TypeVar("T")
_log = logging.getLogger(__name__)

MAX_BYTES: Final = 32 * 1024 * 1024
_MAX_TOKEN: Final = 64 * 1024
_TOO_LARGE: Final = "the list is larger than {limit} bytes"
_URL_CHARACTERS: Final = "%/?#[]@!$&'()*+,;=:~"
_PORTS: Final = MappingProxyType({"http": 10255, "https": 10250})
_HINTS: Final = MappingProxyType(
    {401: "; is the token right?", 403: "; may the token's owner get nodes/proxy?", 404: "; the path is usually /pods"}
)


class Scheme(StrEnum):
    """How the list is fetched. UNIX is HTTP over a socket, FILE is for tests and for lists of another origin."""

    HTTP = "http"
    HTTPS = "https"
    UNIX = "unix"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletUrl:
    """The parts of a URL. `host` is the path of a file or socket for the schemes FILE and UNIX."""

    scheme: Scheme
    host: str
    port: int = 0
    target: str = "/pods"


def parse_url(url: str) -> KubeletUrl:
    """The parts of a URL; ConfigError if it cannot be used."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError as error:
        raise ConfigError(f"kubelet url {url!r}: {error}") from None
    if parts.scheme not in Scheme.__members__.values():
        raise ConfigError(f"kubelet url {url!r}: begins with none of {', '.join(f'{scheme}://' for scheme in Scheme)}")
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
    # A request line has printable ASCII only.
    return KubeletUrl(scheme=scheme, host=host, port=port or _PORTS[scheme], target=quote(target, safe=_URL_CHARACTERS))


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
        """ConfigError if these settings cannot be used together. With `insecure` certificates are not checked."""
        self._source = source = parse_url(url)
        is_secure = source.scheme is Scheme.HTTPS
        if token_file and not is_secure:
            raise ConfigError(f"kubelet token file {token_file}: {url} would send it unencrypted, https:// is needed")
        if (ca_file or insecure) and not is_secure:
            raise ConfigError(f"kubelet CA file or insecure: they mean nothing for {url}, only for https://")
        if ca_file and insecure:
            raise ConfigError(f"kubelet CA file {ca_file}: is of no use with insecure, which checks nothing")
        self.url = url
        self.pods: Mapping[str, PodMetadata] = MappingProxyType({})
        self.refreshes = 0
        self.failures = 0
        self.problem = ""  # why the last refresh failed; empty if it did not
        self.refreshed_at: float | None = None  # on the clock of `now`
        self._token_file = token_file
        self._ca_file = ca_file
        self._insecure = insecure
        self._timeout = timeout
        self._limit = limit
        self._now = now
        self._server = Server(scheme=source.scheme, host=source.host, port=source.port)
        where = url if source.scheme is Scheme.UNIX else str(self._server)
        # Redirects are seen as what they are: a status other than 200. Nobody else gets the token.
        self._http = HttpClient(where, self._dial, redirects=True)
        self._refreshing = False
        self._thread: asyncio.Future[Any] | None = None  # the last work on files; it outlives a refresh that gave up

    async def refresh(self) -> bool:
        """Fetch the list once; whether there is a new one. Never raises for errors of kubelet, network or files."""
        if self._refreshing or (self._thread is not None and not self._thread.done()):
            return self._record_failure("the request before has not ended yet")
        self._refreshing = True
        try:
            async with asyncio.timeout(self._timeout):
                pods = await self._fetch()
        except TimeoutError:
            return self._record_failure(f"no answer within {self._timeout:g} s")
        except (OSError, ValueError, UnreachableError) as error:
            return self._record_failure(str(error) or type(error).__name__)
        except Exception as error:  # a bug of ours must not end the caller's loop
            _log.exception("Failed to list the kubelet's pods", extra={"kv": {"url": self.url}})
            return self._record_failure(f"{type(error).__name__}: {error}")
        finally:
            self._refreshing = False
        self.pods = MappingProxyType(dict(pods))
        self.refreshes += 1
        self.refreshed_at = self._now()
        if self.problem:
            _log.info("Kubelet lists its pods again", extra={"kv": {"url": self.url, "pods": len(pods)}})
        self.problem = ""
        return True

    def _record_failure(self, problem: str) -> bool:
        self.failures += 1
        # A warning the first time only: the kubelet is asked again and again.
        log = _log.debug if self.problem else _log.warning
        log("Kubelet does not list its pods, the last list stays", extra={"kv": {"url": self.url, "err": problem}})
        self.problem = problem
        return False

    async def _fetch(self) -> Mapping[str, PodMetadata]:
        if self._source.scheme is Scheme.FILE:
            return await self._in_thread(lambda: parse_pods(_read_file(self._source.host, self._limit)))
        token, context = await self._in_thread(self._credentials)
        document = await self._request(token, context)
        return await self._in_thread(lambda: parse_pods(document))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Work that may block. A thread cannot be ended: after a time-out the next refresh waits for its end."""
        thread = asyncio.get_running_loop().run_in_executor(None, work)
        thread.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._thread = thread
        return await asyncio.shield(thread)

    async def _request(self, token: str, context: ssl.SSLContext | None) -> bytes:
        """The document. Raises UnreachableError or ValueError."""
        host = "localhost" if self._source.scheme is Scheme.UNIX else self._server.authority
        headers = [
            ("Host", host),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ]
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        request = HttpRequest(method="GET", target=self._source.target, headers=tuple(headers))
        async with self._http.send_request(request, context) as answer:
            if answer.status != HTTPStatus.OK:
                hint = _HINTS.get(answer.status, "")
                raise ValueError(f"the kubelet answers {answer.status} {answer.reason}{hint}")
            document = bytearray()
            while data := await answer.read():
                document += data
                if len(document) > self._limit:
                    raise ValueError(_TOO_LARGE.format(limit=self._limit))
            return bytes(document)

    async def _dial(self, context: ssl.SSLContext | None) -> Streams:
        if self._source.scheme is Scheme.UNIX:
            return await dial_unix(self._source.host, timeout=self._timeout)
        return await dial(self._server, context, timeout=self._timeout)

    def _credentials(self) -> tuple[str, ssl.SSLContext | None]:
        """Token and TLS context, made for each request, so that replaced files count."""
        token = _read_token(self._token_file) if self._token_file else ""
        if self._source.scheme is not Scheme.HTTPS:
            return token, None
        try:
            authorities = Pem(file=self._ca_file)
            return token, make_context(authorities=authorities, insecure=self._insecure, certificate=Pem(), key=Pem())
        except ConfigError as error:
            raise ValueError(f"kubelet CA file {self._ca_file}: {str(error).partition(': ')[2]}") from None


def _read_file(path: str, limit: int) -> bytes:
    with Path(path).open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(_TOO_LARGE.format(limit=limit))
    return data


def _read_token(path: str) -> str:
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


_POLL_WAIT: Final = 0.25


class Poller:
    """Refreshes a source, one refresh at a time. `known` returns the last state of the source.

    `changed` is called if a refresh that came late changed that state. `refresh` does not fail.
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
        self._running: asyncio.Task[object] | None = None

    async def poll(self) -> None:
        """Start a refresh unless one runs, and wait a little for its end."""
        if self._running is None or self._running.done():
            before = self._known()
            self._running = self._tasks.spawn(self._run(), name=self._name)
            done, _ = await asyncio.wait((self._running,), timeout=_POLL_WAIT)
            if not done:
                self._running.add_done_callback(lambda task: self._on_late_answer(task, before))
        else:
            await asyncio.wait((self._running,), timeout=_POLL_WAIT)

    async def close(self) -> None:
        """Cancel a refresh that is under way."""
        await self._tasks.cancel()

    async def _run(self) -> object:
        return await self._refresh()

    def _on_late_answer(self, task: "asyncio.Task[object]", before: object) -> None:
        # Only if it changed: a source that is always late would otherwise trigger one pass after the other.
        if not task.cancelled() and self._known() != before:
            self._changed()


class MetadataOverlay(NamedTuple):
    """Adds the kubelet's metadata to a pod. `known`: whether the kubelet has ever listed its pods."""

    of: Callable[[Pod], Pod]
    known: bool = True


class MetadataSource:
    """Metadata of the kubelet, if there is one. `changed` is called if a late answer had another list."""

    def __init__(self, kubelet: KubeletPods | None, changed: Callable[[], None]) -> None:
        self._kubelet = kubelet
        self._poller = None
        if kubelet is not None:
            name = "ask the kubelet for its pods"
            self._poller = Poller(kubelet.refresh, lambda: kubelet.pods, changed, name=name)

    async def poll(self) -> MetadataOverlay:
        """The metadata known now, after a short wait for the latest."""
        if self._kubelet is None or self._poller is None:
            return MetadataOverlay(self.of)
        await self._poller.poll()
        return MetadataOverlay(self.of, known=self._kubelet.refreshed_at is not None)

    def of(self, pod: Pod) -> Pod:
        """A pod with the metadata of the kubelet's last list."""
        return pod if self._kubelet is None else overlay(pod, self._kubelet.pods.get(pod.uid))

    async def close(self) -> None:
        """Cancel a request that is under way."""
        if self._poller is not None:
            await self._poller.close()
