"""Writes the document about the node, which the hook server reads, whenever it changes.

A NodeSLO is read once for each version of it, in a thread. A file that was removed is written again. However often
annotations of the Node change, the file changes once a second at most. If the disk is full or cannot be written to, the
write is retried; the hook server continues with the file it has.

`StateFile` replaces the file atomically: readers see the old content or the new one, never a part. All of it happens
inside one directory that is opened first, so that no path step can be redirected; the directory must belong to us or
root and be writable by nobody else. Of two writers of the same file the last one wins.
"""

import asyncio
import errno
import logging
import os
import random
import re
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from interpose.core.backoff import Backoff
from interpose.host.atomic_file import replace_at
from interpose.host.file_trust import Trust
from interpose.kube.agent.config_choice import ObservedObject
from interpose.kube.agent.node_document import (
    Check,
    CheckedSlo,
    SloPhase,
    SloState,
    judge,
    node_part,
    node_state,
    read_stored_slo,
    slo_in_force,
    text_of,
)
from interpose.kube.client.api import Object
from interpose.log import RateLimited
from interpose.tasks import LEAST_PAUSE, Idle, idle

_DIRECTORY_MODE: Final = 0o755
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_LIMIT: Final = 8 << 20
# Nobody takes so long to write a file: whoever began to was killed.
_LEFT_BEHIND: Final = 300.0


class StateFile:
    """One file by its path. Its methods wait for the disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder, self._name = os.path.split(path)
        self._stamp: tuple[int, ...] | None = None  # of the file as we left it
        self._is_cleaned = False

    def read(self) -> str | None:
        """What it holds; None if there is none. OSError or ValueError if it cannot be read or believed."""
        try:
            with self._directory() as directory:
                return self._content(directory)
        except FileNotFoundError:
            return None

    def write(self, text: str) -> bool:
        """Replace the content; False if it was the same. OSError or ValueError if it cannot be done."""
        self._make_directory()
        with self._directory() as directory:
            with suppress(OSError, ValueError):  # whatever is there, it will be another
                if self._content(directory) == text:
                    return False
            self._stamp = None
            if not self._is_cleaned:
                self._remove_leftovers(directory)
            # Not with our number, which somebody in another container may have too.
            temporary = f".{self._name}.{secrets.token_hex(8)}.tmp"
            self._stamp = _stamp(replace_at(directory, self._name, text.encode(), temporary=temporary))
        return True

    def is_as_written(self) -> bool:
        """Whether it is still as `write` left it, as far as can be told without reading it."""
        try:
            return self._stamp is not None and _stamp(os.lstat(self.path)) == self._stamp
        except OSError:
            return False

    @contextmanager
    def _directory(self) -> Iterator[int]:
        folder = self._folder or "."
        try:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
        except NotADirectoryError:
            raise ValueError(f"{folder} is not a directory, or a link to one") from None
        try:
            if doubts := Trust().doubts(os.fstat(directory)):
                raise ValueError(f"directory {folder} {doubts}")
            yield directory
        finally:
            os.close(directory)

    def _make_directory(self) -> None:
        folder = Path(self._folder or ".")
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(_DIRECTORY_MODE)  # whatever our umask is: its readers are other processes

    def _content(self, directory: int) -> str | None:
        try:
            fd = os.open(self._name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise ValueError(f"{self.path} is not a regular file") from None
            raise
        try:
            found = os.fstat(fd)
            if doubts := self._doubts(found):
                raise ValueError(f"{self.path} {doubts}")
            self._stamp = _stamp(found)
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read(_LIMIT).decode()
        finally:
            os.close(fd)

    @staticmethod
    def _doubts(found: os.stat_result) -> str | None:
        if not stat.S_ISREG(found.st_mode):
            return "is not a regular file"
        if found.st_size > _LIMIT:
            return f"is larger than {_LIMIT} bytes"
        return Trust().doubts(found)

    def _remove_leftovers(self, directory: int) -> None:
        """Remove temporary files of processes that were killed while they wrote."""
        self._is_cleaned = True
        pattern = re.compile(rf"\.{re.escape(self._name)}\.([0-9a-f]+\.)?tmp")
        for name in os.listdir(directory):
            if pattern.fullmatch(name):
                with suppress(OSError):
                    if time.time() - os.lstat(name, dir_fd=directory).st_mtime > _LEFT_BEHIND:
                        os.unlink(name, dir_fd=directory)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid


_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
# Between two writes: each is a reload of the hook server.
SPACING: Final = 1.0
# How often we look whether the file is still there.
LOOK: Final = 60.0


class NodeFeed:
    """Writes the document for the hook server. `on_slo` is called when the state of the NodeSLO changed."""

    def __init__(
        self,
        file: StateFile,
        *,
        node: str,
        seen_node: Callable[[], ObservedObject],
        seen_slo: Callable[[], ObservedObject],
        check: Check,
        on_slo: Callable[[SloState], None],
        deleted: str = "keep",
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        pause: Idle = idle,
    ) -> None:
        self.slo = SloState()
        self.problem = ""  # of the file
        self.outcomes: Counter[str] = Counter()  # written, failed
        self._file = file
        self._node = node
        self._observed_node = seen_node
        self._observed_slo = seen_slo
        self._check = check
        self._on_slo = on_slo
        self._keep = deleted == "keep"
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random=chance)
        self._now = now
        self._pause = pause
        self._judged: CheckedSlo | None = None
        self._good: Object | None = None
        self._node_part: tuple[Object, tuple[str, ...]] = ({}, ())  # of the Node, and what is wrong with it
        self._written: dict[str, Any] | None = None
        self._written_at: float | None = None
        self._wake = asyncio.Event()
        self._limited = RateLimited(_log, clock=now)

    def poke(self) -> None:
        """Called when the Node or the NodeSLO changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. The file of an earlier run is read first: it has what outlives a NodeSLO."""
        await self._load_previous()
        while True:
            self._wake.clear()
            delay = await self._update_file()
            await self._pause(self._wake, max(delay, LEAST_PAUSE))

    async def _load_previous(self) -> None:
        try:
            text = await asyncio.to_thread(self._file.read)
        except (OSError, ValueError) as error:
            _log.warning("Failed to read node state file", extra={"kv": {"file": self._file.path, "err": error}})
            return
        if text is not None:
            self._good = await asyncio.to_thread(read_stored_slo, text, self._node, self._check)

    async def _update_file(self) -> float:
        """Write what is to be written; the pause until the next look."""
        document = await self._document()
        if document is None:
            return LOOK
        try:
            if document == self._written and await asyncio.to_thread(self._file.is_as_written):
                return LOOK
            if self._written_at is not None and (wait := self._written_at + SPACING - self._now()) > 0:
                return wait
            written = await asyncio.to_thread(self._write, document)
        except (OSError, ValueError) as error:
            return self._failed(error)
        before, self._written, self.problem = self._written, document, ""
        self._backoff.reset()
        if written:
            self._written_at = self._now()
            self.outcomes["written"] += 1
            self._log_written(before, document)
        return LOOK

    async def _document(self) -> dict[str, Any] | None:
        """What the file is to hold; None if that is not known, or could not be used."""
        node, slo = self._observed_node(), self._observed_slo()
        if not node.known or node.object is None:
            self._set_slo(SloState())
            return None
        if slo.object is not None and (self._judged is None or not self._judged.is_of(slo.object)):
            self._judged = await asyncio.to_thread(judge, slo.object, self._check)
        self._good, state = slo_in_force(slo, self._judged, good=self._good, keep=self._keep)
        part = node_part(node.object)
        if part != self._node_part[0]:
            self._node_part = (part, tuple(self._check(node_state(part, None))))
        if problems := self._node_part[1]:
            self._set_slo(SloState(phase=SloPhase.REJECTED, problems=problems))
            return None
        self._set_slo(state)
        return node_state(part, self._good)

    def _write(self, document: Object) -> bool:
        return self._file.write(text_of(document))

    def _log_written(self, before: dict[str, Any] | None, document: dict[str, Any]) -> None:
        kv = {"file": self._file.path, "nodeslo": self.slo.phase.value}
        level = logging.DEBUG if before is not None and _plain(before) == _plain(document) else logging.INFO
        _log.log(level, "Node state file was written", extra={"kv": kv})

    def _failed(self, error: Exception) -> float:
        self.outcomes["failed"] += 1
        self.problem = f"file {self._file.path}: {error}"
        self._limited.log(
            logging.ERROR, "Failed to write node state file", key=str(error), file=self._file.path, err=str(error)
        )
        return self._backoff.next()

    def _set_slo(self, slo: SloState) -> None:
        if slo == self.slo:
            return
        self.slo = slo
        if slo.phase is SloPhase.REJECTED:
            self._limited.log(
                logging.ERROR,
                "NodeSLO rejected, keeping the last valid one",
                key=slo.version,
                version=slo.version,
                problems="; ".join(slo.problems),
            )
        self._on_slo(slo)


def _plain(document: dict[str, Any]) -> tuple[Any, Any]:
    """The parts whose change is logged; annotations may change all the time."""
    return document["node"]["labels"], document.get("nodeSLO")
