"""The file with the node's policy, followed: the last good version stays in force until there is a better one.

Whatever happens to the file, nothing of it is used in part. While it is followed, a version counts when it has stood
still for a moment: the first half of a document may be a document, with another meaning. A file that is gone changes
nothing; it is awaited.

Invariant: `document` is replaced whole, in one assignment on the loop.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from interpose.config.documents.yaml import read_document
from interpose.core.model.text import escaped
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import NodeDocument, parse_node_document
from interpose.host.atomic_file import remove_leftovers, replace_file
from interpose.host.dirwatch import DirWatch
from interpose.host.file_trust import Stamp, Trust, examine
from interpose.log import RateLimited
from interpose.tasks import TaskBag

# Seconds without a change after which a version counts: time enough for whoever writes it in several steps.
SETTLE = 0.2
# Seconds after which a file that never stands still is complained about.
_UNSETTLED = 10.0
# A file changed less than this before it was read may change again without a trace: some file systems count time in
# steps of a second.
_SETTLED_NS = 1_000_000_000
# Reading again at the start because it changed meanwhile; one that always does is left alone until it is followed.
_ATTEMPTS = 3
_MAX_PROBLEM = 400  # characters of one problem
_MAX_LOGGED = 5  # problems in one line of the log; `problems` has all of them

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 4 << 20  # a NodeSLO has some kilobytes, all annotations of a node 256 KiB


class _FileVersion(NamedTuple):
    """The file from outside: which version it is, and why it is not to be opened."""

    stamp: Stamp | None
    problems: tuple[str, ...] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The file as it was found: a document, or problems. `sight` None: to be read again whatever it looks like."""

    document: NodeDocument | None = None
    problems: tuple[str, ...] = ()
    missing: bool = False
    version: _FileVersion | None = None


class NodeFile:
    """Reads at `load`, follows from `start` until `close`. `changed` gets every new document, on the loop."""

    def __init__(
        self,
        path: str,
        on_change: Callable[[NodeDocument], None],
        *,
        copy_path: str | None = None,
        save_copy: bool = True,
        trust: Trust | None = None,
        settle: float = SETTLE,
    ) -> None:
        """`keep` is where the last document that could be used is kept for the next start, if `remember` says so."""
        self.path = str(Path(path).absolute())
        self.document: NodeDocument | None = None  # the one in force
        self.loaded_at: float | None = None  # since when, in seconds of the wall clock
        self.problems: tuple[str, ...] = ()  # of the file as it is now; that it does not exist is one
        self.errors = 0  # versions that could not be used
        self._on_change = on_change
        self._copy = None if copy_path is None else Path(copy_path).with_suffix(Path(path).suffix)
        self._saves_copy = save_copy
        self._trust = Trust() if trust is None else trust
        self._settle = settle
        self._last: _Reading | None = None  # what was put in force or complained about
        self._watch: DirWatch | None = None
        self._tasks = TaskBag()
        self._following = False
        self._wake = asyncio.Event()
        self._limited = RateLimited(_log)

    def load(self) -> bool:
        """Read it here and now; whether there is a new document. For the time before the loop has duties.

        If it cannot be used, the last one that could is put in force: a restart is no reason to lose it.
        """
        if self._apply(self._read_now()):
            return True
        return self.document is None and self._load_copy()

    def start(self) -> None:
        """Follow the file on the running loop."""
        self._watch = DirWatch(str(Path(self.path).parent), self._on_directory_change)

    async def close(self) -> None:
        """Stop following; what is in force stays."""
        if self._watch is not None:
            self._watch.close()
        await self._tasks.cancel()

    def _on_directory_change(self) -> None:
        """One look at a time; whatever happens meanwhile is worth one more."""
        self._wake.set()
        if not self._following:
            self._following = True
            self._tasks.spawn(self._follow(), name="node document")

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        candidate: _FileVersion | None = None  # a version that does not count yet
        changing_since = settled_at = 0.0  # when the changes began, and from when on it counts
        try:
            while self._wake.is_set() or candidate is not None:
                self._wake.clear()
                version = await asyncio.to_thread(self._examine)
                if self._is_current(version):
                    candidate = None
                    continue
                now = loop.time()
                changing_since = now if candidate is None else changing_since
                if version != candidate:
                    candidate, settled_at = version, now + self._settle
                if now < settled_at:
                    if now - changing_since > _UNSETTLED:
                        self._apply(_Reading(problems=(f"file {self.path}: changes all the time",)))
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(settled_at):
                            await self._wake.wait()
                    continue
                reading = await asyncio.to_thread(self._read, version)
                if reading is not None:
                    candidate = None
                    self._apply(reading)
        finally:
            self._following = False

    def _is_current(self, version: _FileVersion) -> bool:
        """Whether it is what was put in force or complained about."""
        return self._last is not None and self._last.version == version

    # -- in a thread

    def _read_now(self) -> _Reading:
        for _ in range(_ATTEMPTS):
            version = self._examine()
            if self._last is not None and self._is_current(version):
                return self._last
            if (reading := self._read(version)) is not None:
                return reading
        return _Reading(problems=(f"file {self.path}: changes while it is read",))

    def _examine(self) -> _FileVersion:
        try:
            found = examine(self.path, self._trust)
        except (FileNotFoundError, NotADirectoryError):
            return _FileVersion(None, (f"file {self.path}: does not exist",), missing=True)
        except OSError as error:
            return _FileVersion(None, (f"file {self.path}: cannot be opened: {error.strerror}",))
        return _FileVersion(found.stamp, tuple(f"file {self.path}: {doubt}" for doubt in found.doubts))

    def _read(self, version: _FileVersion) -> _Reading | None:
        """What is in it; None if it changed meanwhile. What has a problem from outside is not opened."""
        if version.stamp is None or version.problems:
            return _Reading(problems=version.problems, missing=version.missing, version=version)
        age = time.time_ns() - max(version.stamp.mtime_ns, version.stamp.ctime_ns)
        settled = version if age >= _SETTLED_NS else None
        data: bytes | None = None
        try:
            document = parse_node_document(read_document(self.path, MAX_BYTES), self.path)
            reading = _Reading(document=document, version=settled)
            with suppress(OSError):
                data = Path(self.path).read_bytes()
        except ConfigError as error:
            reading = _Reading(problems=tuple(map(_printable, error.problems)), version=settled)
        if self._examine() != version:
            return None
        if data is not None:
            self._save_copy(data)
        return reading

    def _save_copy(self, data: bytes) -> None:
        """A copy that cannot be made costs the next start something, not this one."""
        if self._copy is None or not self._saves_copy:
            return
        try:
            if self._copy.exists() and self._copy.read_bytes() == data:
                return
            remove_leftovers(str(self._copy))
            replace_file(str(self._copy), data)
        except OSError as error:
            text = "Node document cannot be kept for the next start"
            self._limited.log(logging.WARNING, text, file=str(self._copy), err=str(error))

    # -- on the loop

    def _load_copy(self) -> bool:
        if self._copy is None:
            return False
        path = str(self._copy)
        try:
            if examine(path, self._trust).doubts:
                return False
            self.document = parse_node_document(read_document(path, MAX_BYTES), path)
        except (ConfigError, OSError):
            return False
        self.loaded_at = time.time()
        extra = {"kv": {"file": self.path, "kept_as": path}}
        _log.warning("Using the node document of the previous run", extra=extra)
        self._on_change(self.document)
        return True

    def _apply(self, reading: _Reading) -> bool:
        """Put a document in force, or say why not; whether it is a new one."""
        known = self._last is not None and reading.problems == self._last.problems
        self._last = reading
        self.problems = reading.problems
        if reading.document is None:
            if not known:
                self._log_problems(reading)
            return False
        if not known and self.document is not None:
            _log.info("Node document is valid again", extra={"kv": {"file": self.path}})
        if reading.document == self.document:
            return False
        self.document, self.loaded_at = reading.document, time.time()
        _log.info(
            "Node document loaded",
            extra={
                "kv": {"file": self.path, "node": reading.document.name, "policy": reading.document.slo is not None}
            },
        )
        self._on_change(reading.document)
        return True

    def _log_problems(self, reading: _Reading) -> None:
        fields = {"file": self.path, "last_good_in_force": self.document is not None}
        if reading.missing:
            _log.warning("Node document does not exist, waiting for it", extra={"kv": fields})
            return
        self.errors += 1
        problems = "; ".join(reading.problems[:_MAX_LOGGED])
        if (more := len(reading.problems) - _MAX_LOGGED) > 0:
            problems += f"; and {more} more"
        _log.warning("Invalid node document", extra={"kv": {**fields, "problems": problems}})


def _printable(problem: str) -> str:
    """A problem as it may be shown and logged: a file can hold any bytes."""
    text = escaped(problem)
    return text if len(text) <= _MAX_PROBLEM else f"{text[:_MAX_PROBLEM]}..."
