"""What was found and what was written in its place: so that switching off restores, also after a kill -9.

The file is only appended to (`journal_lines` has its format), and written anew when most of it is history. A line is
handed to the kernel before the value it is about is written; the page cache outlives the process, and after a reboot
the groups are gone anyway, so nothing is synced.
"""

import errno
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from interpose.core.model.cgroup import Level, Parameter, Value
from interpose.errors import ConfigError
from interpose.hooks.server.reconcile.journal_format import (
    Content,
    JournalEntry,
    Slot,
    TargetId,
    forget_line,
    header_line,
    line_of,
    parse,
)
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.file_lock import FileLock

__all__ = ["Journal", "JournalEntry"]

_log = logging.getLogger(__name__)

# The file is written anew when it has this many lines more than four times what is alive.
_SLACK: Final = 1000
_OPEN: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class Journal:
    """Entries by target. Every method may be called from any thread; those that write raise OSError if they fail.

    Reading takes no lock: a disk that does not answer holds up who writes, and nobody else.
    """

    def __init__(self, path: str | None, boot: str) -> None:
        self._path = None if path is None else Path(path)
        self._boot = boot
        self._lock = threading.Lock()
        self._slots: dict[TargetId, Slot] = {}
        self._count = 0  # of entries
        self._lines = 0
        self._size = 0
        self._limit = _SLACK
        self._fd = -1
        self._file_lock: FileLock | None = None

    def load(self) -> None:
        """Take the file over. ConfigError if it cannot be used, BlockingIOError if another process does."""
        path = self._path
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = Path(f"{path}.lock")
            refusal = f"journal {path} is in use by another process, which holds {lock}"
            self._file_lock = FileLock.take(lock, lambda _owner: refusal, timeout=0.0)
            content = self._content(path)
            if content.size:
                self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | _OPEN)
                os.ftruncate(self._fd, content.size)  # half a line that a killed process left
            self._slots, self._lines, self._size = content.slots, content.lines, content.size
            self._count = sum(len(slot.entries) for slot in self._slots.values())
            if not content.size or self._is_long():
                self._rewrite(path)
        except BlockingIOError:
            self.close()
            raise  # it can be used when the other one has ended: no mistake in a setting
        except OSError as error:
            self.close()
            place = f"{error.filename}: " if error.filename not in (None, str(path)) else ""
            raise ConfigError(f"journal {path} cannot be used: {place}{error.strerror}") from error

    def peek(self) -> None:
        """Read the file, and have nothing to do with it from then on: another process may be at work with it."""
        path, self._path = self._path, None
        if path is None:
            return
        try:
            content = parse(path.read_bytes(), self._boot)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            extra = {"kv": {"file": str(path), "error": str(error)}}
            _log.warning("Failed to read journal, original values are unknown", extra=extra)
            return
        self._slots = content.slots
        self._count = sum(len(slot.entries) for slot in self._slots.values())

    def note(
        self,
        target: ActuatorTarget,
        parameter: Parameter,
        *,
        found: Value | None,
        written: Value,
        plugin: str,
        before: Value | None = None,
    ) -> None:
        """A value is about to be written. An entry keeps what was found first."""
        with self._lock:
            old = self._get(target.level, target.key, parameter)
            entry = JournalEntry(found=old.found if old else found, written=written, plugin=plugin, before=before)
            if entry != old:
                self._put(target, parameter, entry)

    def supersede(
        self,
        target: ActuatorTarget,
        parameter: Parameter,
        *,
        found: Value | None,
        written: Value,
        plugin: str,
        before: Value | None = None,
    ) -> None:
        """Somebody asks for another original, and gets another value of ours with it, if the runtime does it.

        Until it is known whether it did, the original before counts with the value before.
        """
        with self._lock:
            old = self._get(target.level, target.key, parameter)
            entry = JournalEntry(found=found, written=written, plugin=plugin, before=before)
            if old is not None and before is not None and old.found != found:
                original = old.original(has_written=before == old.written)
                entry = replace(entry, moved=True, found_before=original)
            if entry != old:
                self._put(target, parameter, entry)

    def rebase(self, level: Level, key: str, parameter: Parameter, found: Value | None) -> None:
        """Somebody whose business it is has set another original value; nothing happens without an entry."""
        with self._lock:
            old = self._get(level, key, parameter)
            if old and old.found != found:
                self._put(self._slots[level, key].target, parameter, replace(old, found=found))

    def forget(self, level: Level, key: str, parameter: Parameter) -> None:
        """A value is no longer ours. Never fails: what is read again later is forgotten again."""
        with self._lock:
            if self._get(level, key, parameter):
                slot = self._slots[level, key]
                del slot.entries[parameter]
                self._count -= 1
                if not slot.entries:
                    del self._slots[level, key]
                self._append_if_possible(forget_line(level, key, parameter))

    def forget_target(self, level: Level, key: str) -> None:
        """A target is gone."""
        with self._lock:
            slot = self._slots.pop((level, key), None)
            if slot is not None:
                self._count -= len(slot.entries)
                self._append_if_possible(forget_line(level, key))

    def get(self, level: Level, key: str, parameter: Parameter) -> JournalEntry | None:
        """The entry of one value."""
        return self._get(level, key, parameter)

    def entries_of(self, level: Level, key: str) -> Mapping[Parameter, JournalEntry]:
        """The entries of a target, as they are now."""
        slot = self._slots.get((level, key))
        return dict(slot.entries) if slot else {}

    def targets(self) -> list[TargetId]:
        """Level and key of every target with entries."""
        return list(self._slots)

    def target_of(self, level: Level, key: str) -> ActuatorTarget | None:
        """The target as it was when something was last written to it."""
        slot = self._slots.get((level, key))
        return slot.target if slot else None

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Let go of the file. What is noted from then on fails, unless there never was a file."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
            if self._file_lock is not None:
                self._file_lock.release()

    # -- memory; the lock is held

    def _get(self, level: Level, key: str, parameter: Parameter) -> JournalEntry | None:
        slot = self._slots.get((level, key))
        return slot.entries.get(parameter) if slot else None

    def _put(self, target: ActuatorTarget, parameter: Parameter, entry: JournalEntry) -> None:
        self._append(line_of(target, parameter, entry))
        slot = self._slots.setdefault((target.level, target.key), Slot(target))
        slot.target = target
        self._count += parameter not in slot.entries
        slot.entries[parameter] = entry

    # -- the file; the lock is held

    def _append(self, line: bytes) -> None:
        """Hand a line to the kernel, in one piece or not at all."""
        if self._path is None:
            return
        if self._fd < 0:
            raise OSError(errno.EBADF, "the journal is closed", str(self._path))
        if self._is_long():
            self._rewrite_if_possible(self._path)
        try:
            whole = self._write(line) == len(line)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        if not whole:
            os.ftruncate(self._fd, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._size += len(line)
        self._lines += 1

    def _write(self, line: bytes) -> int:
        return os.write(self._fd, line)

    def _append_if_possible(self, line: bytes) -> None:
        try:
            self._append(line)
        except OSError as error:
            _log.debug("Journal entry could not be removed from its file", extra={"kv": {"error": str(error)}})

    def _is_long(self) -> bool:
        return self._lines > 4 * self._count + self._limit

    def _rewrite_if_possible(self, path: Path) -> None:
        try:
            self._rewrite(path)
        except OSError as error:
            self._limit += _SLACK  # not at every line
            extra = {"kv": {"file": str(path), "error": str(error)}}
            _log.warning("Failed to compact journal", extra=extra)

    def _rewrite(self, path: Path) -> None:
        """Put a file with only the living entries in the place of the old one."""
        lines = [header_line(self._boot)]
        for slot in self._slots.values():
            lines += [line_of(slot.target, parameter, entry) for parameter, entry in slot.entries.items()]
        data = b"".join(lines)
        temporary = path.with_name(f"{path.name}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | _OPEN, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            temporary.replace(path)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                temporary.unlink()
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size, self._lines = descriptor, len(data), len(lines) - 1

    def _content(self, path: Path) -> Content:
        """What the file says; one that is damaged is set aside, so that nothing of it is lost for whoever looks."""
        try:
            data = path.read_bytes()
            content = parse(data, self._boot)
            if content.foreign:
                aside = path.with_name(f"{path.name}.previous")
                path.replace(aside)
                extra = {"kv": {"file": str(path), "kept_as": str(aside)}}
                _log.info("Journal is from another boot or version, starting empty", extra=extra)
            elif content.damaged:
                aside = _aside(path)
                aside.write_bytes(data)
                fields = {"file": str(path), "kept_as": str(aside), "lines": "; ".join(content.damaged[:5])}
                _log.error("Corrupt journal lines: their values cannot be restored", extra={"kv": fields})
                content.size = 0  # to be written anew, without them
            return content
        except FileNotFoundError:
            return Content()
        except (OSError, ValueError) as error:
            aside = _aside(path)
            path.rename(aside)
            extra = {"kv": {"file": str(path), "kept_as": str(aside), "error": str(error)}}
            _log.error("Corrupt journal: values set before this start cannot be restored", extra=extra)
            return Content()


def _aside(path: Path) -> Path:
    """A name that nothing has."""
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    return next(name for name in names if not os.path.lexists(name))
