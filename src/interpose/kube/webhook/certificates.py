"""The certificate the webhook serves, always the newest that is good.

Files are watched, and looked at every minute besides. A new pair becomes a new TLS context, which new connections get;
connections that are open keep theirs and are not cut. (Loading a pair into the context in use would leave a pair with
another kind of key behind in it, and clients could be served that one.)

Invariant: `context` is complete at any time. A pair that is broken, half written, or does not fit together is reported
and counted, and the one before stays. So is one that clients would not accept now, as long as they accept the one
before: one that is valid later is taken into use then, by the look of every minute.
"""

import asyncio
import hashlib
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interpose.errors import ConfigError
from interpose.host.dirwatch import DirWatch
from interpose.kube.webhook.validity import Validity, validity_of
from interpose.log import kv
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

INTERVAL = 60.0
# A pair is two files: between the first and the second they do not fit together, which is no reason for an alarm yet.
_SETTLE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where they are; `client_ca` may be empty."""

    certificate: str
    key: str
    client_ca: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Those that are there to be read."""
        return tuple(path for path in (self.certificate, self.key, self.client_ca) if path)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPair:
    """A certificate and key that were loaded together."""

    context: ssl.SSLContext
    validity: Validity
    digests: tuple[str, ...]  # what the files held


class Certificates:
    """Loads at once (ConfigError), then follows the files from `start` to `close`."""

    def __init__(
        self,
        files: TlsFiles,
        *,
        wall: Callable[[], float] = time.time,
        interval: float = INTERVAL,
        settle: float = _SETTLE,
    ) -> None:
        self._files = files
        self._wall = wall
        self._interval = interval
        self._settle = settle
        self._wake = asyncio.Event()
        self._tasks = TaskBag()
        self._watches: list[DirWatch] = []
        self.stale = ""  # why the files cannot be used, while an older pair serves
        self.reloads = {"loaded": 0, "failed": 0}
        self._loaded = load(files)

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._loaded.context

    @property
    def validity(self) -> Validity:
        """Of the certificate that is served."""
        return self._loaded.validity

    def problem(self) -> str | None:
        """Why clients will not accept what is served, if so."""
        return self.validity.problem(self._wall())

    def remark(self) -> str:
        """What is served, for people."""
        return f"{self.validity}; newer files cannot be used: {self.stale}" if self.stale else str(self.validity)

    def start(self) -> None:
        """Start watching the files."""
        for folder in sorted({str(Path(path).absolute().parent) for path in self._files.all}):
            # It calls once more every interval, for file systems that do not tell.
            self._watches.append(DirWatch(folder, self._wake.set, interval=self._interval))
        self._tasks.spawn(self._follow(), name="follow certificates")

    async def close(self) -> None:
        """Stop watching the files."""
        for watch in self._watches:
            watch.close()
        await self._tasks.cancel()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self.look():
                # The other half of the pair may be on its way; if it comes, the watch says so too.
                await asyncio.sleep(self._settle)
                if problem_text := await self.look():
                    self._report(problem_text)

    async def look(self) -> str:
        """Take new files into use, if there are any and they are good; else why they are not."""
        try:
            digests = await asyncio.to_thread(contents, self._files)
            if digests != self._loaded.digests:
                loaded = await asyncio.to_thread(load, self._files)
                if (problem := loaded.validity.problem(self._wall())) and self.problem() is None:
                    return f"file {self._files.certificate}: {problem}"
                self._use(loaded)
        except ConfigError as error:
            return str(error)
        self.stale = ""
        return ""

    def _use(self, loaded: LoadedPair) -> None:
        self._loaded = loaded
        self.reloads["loaded"] += 1
        _log.info("Certificate reloaded", extra=kv(certificate=self._files.certificate, state=str(self.validity)))

    def _report(self, problem_text: str) -> None:
        """Once for each trouble, however often the files are looked at."""
        if self.stale == problem_text:
            return
        self.stale = problem_text
        self.reloads["failed"] += 1
        _log.warning("Failed to load certificate, keeping the previous one", extra=kv(err=problem_text))


def contents(files: TlsFiles) -> tuple[str, ...]:
    """What the files hold, as far as telling a change needs it: keys are not kept. ConfigError."""
    return tuple(hashlib.sha256(_read(path)).hexdigest() for path in files.all)


def load(files: TlsFiles) -> LoadedPair:
    """Make a context of the files. ConfigError that names the file and what is wrong."""
    before = contents(files)
    try:
        validity = validity_of(_read(files.certificate).decode("latin-1"))
    except ValueError as error:
        raise ConfigError(f"file {files.certificate}: {error}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, password=_refuse_password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"file {files.certificate} with key {files.key}: {_reason(error)}") from None
    if files.client_ca:
        # Optional: a kubelet that asks for our health has none. Who wants a review without one is told no.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError(f"file {files.client_ca}: {_reason(error)}") from None
    if contents(files) != before:
        raise ConfigError(f"file {files.certificate}: changed while it was read")
    return LoadedPair(context=context, validity=validity, digests=before)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"file {path}: cannot be read: {error.strerror}") from None


def _refuse_password() -> str:
    """Without it the library would ask at the terminal."""
    raise ValueError("the key is encrypted")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "the key is not the certificate's" if error.reason == "KEY_VALUES_MISMATCH" else error.reason or "no PEM"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
