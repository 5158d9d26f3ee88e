"""Reports that something in or about a directory may have changed, within a tenth of a second.

The directory may be created later, vanish, be a link, or hold links to files elsewhere: `watch_plan` says what to
watch, the kernel says when. Bursts become one call: 20 ms of quiet end one, 60 ms at the latest.

Invariant: whatever changes after `changed` was called leads to another call. Watches are set before the call, in an
order in which nothing slips through, and once more every `interval` seconds, for file systems and mounts the kernel
does not report. All work that touches files is in a thread: a file system that hangs delays `changed`, never the
loop.

Which directories have to be watched: a path depends on every directory it leads through, since any component can be
renamed, deleted, created or, as a link, pointed elsewhere. So each path is resolved component by component, and every
directory on the way is listed with the names in it that matter. Where a component is missing, its parent is watched.
"""

import asyncio
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from interpose.host import inotify
from interpose.host.inotify import Event, Inotify

# As the kernel: more links than this are a loop.
_MAX_LINKS = 40
# Links in the directory that are followed; the files of a ConfigMap or of a handful of packages are far fewer.
_MAX_FOLLOWED = 128


@dataclass(slots=True)
class WatchInterest:
    """The names that matter in one directory, or all of them (`contents`). With `edits`, writing to files too."""

    names: set[str] = field(default_factory=set)
    contents: bool = False
    edits: bool = False


def watch_plan(directory: str) -> Mapping[str, WatchInterest]:
    """Directories by real path, each after those its path leads through. Only looks, never waits for anything."""
    plan: dict[str, WatchInterest] = {}
    real = _follow(directory, plan)
    if real is None or not _is_directory(real):
        return plan
    inside = plan.setdefault(real, WatchInterest())
    inside.contents = inside.edits = True
    for name in _links_in(real):
        if (file := _follow(f"{real}/{name}", plan)) is not None:
            plan.setdefault(os.path.dirname(file), WatchInterest()).edits = True  # noqa: PTH120 - a real path as well
    return plan


def _follow(path: str, plan: dict[str, WatchInterest]) -> str | None:
    """Note every directory on the way to `path`; the real path at its end, None if it does not lead anywhere."""
    here = "/"
    todo = list(reversed(PurePosixPath(path).parts[1:]))
    links = 0
    while todo:
        name = todo.pop()
        if name == "..":
            here = os.path.dirname(here)  # noqa: PTH120 - a real path, so its text can be cut
            continue
        plan.setdefault(here, WatchInterest()).names.add(name)
        there = os.path.join(here, name)  # noqa: PTH118 - pathlib would cost more than the system calls
        try:
            mode = os.lstat(there).st_mode
            target = os.readlink(there) if stat.S_ISLNK(mode) else None  # noqa: PTH115
        except OSError:
            return None
        if target is None:
            here = there
            if todo and not stat.S_ISDIR(mode):
                return None
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        parts = PurePosixPath(target).parts
        if target.startswith("/"):
            here, parts = "/", parts[1:]
        todo += reversed(parts)
    return here


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _links_in(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_symlink())[:_MAX_FOLLOWED]
    except OSError:
        return []


QUIET = 0.020
LATEST = 0.060
# Seconds between looks without a reason; the second one when there is no inotify.
INTERVAL = 2.0
POLL_INTERVAL = 1.0

# Events after which a path may lead elsewhere, and those after which a file has other contents or permissions.
_STRUCTURE = (
    inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ATTRIB
)
_CONTENTS = _STRUCTURE | inotify.MODIFY | inotify.CLOSE_WRITE
# Setting watches until the plan stands still: links that are swapped faster than that will be events.
_ROUNDS = 5
# Events kept while the thread is at work; with more it is enough to know that there were some.
_MAX_HELD = 4096
_LOST = Event(-1, inotify.OVERFLOW, "")

_log = logging.getLogger(__name__)


class DirWatch:
    """Watches one directory from its making, on the running loop, until `close`.

    `changed` is first called when the watches are set. Without inotify it is called every `poll_interval` seconds.
    """

    def __init__(
        self,
        directory: str,
        changed: Callable[[], None],
        *,
        interval: float = INTERVAL,
        poll_interval: float = POLL_INTERVAL,
        open_inotify: Callable[[], Inotify] = Inotify,
    ) -> None:
        self._directory = str(Path(directory).absolute())
        self._changed = changed
        self._interval = interval
        self._poll_interval = poll_interval
        self._loop = asyncio.get_running_loop()
        self._watches: Mapping[int, WatchInterest] = {}
        self._first: float | None = None  # when the burst began whose end `_timer` waits for
        self._timer: asyncio.TimerHandle | None = None
        self._arming = False  # the thread is at work
        self._held: list[Event] = []  # what happened meanwhile; may be of watches we do not know yet
        self._warned = False
        # Guards who closes the descriptor, the thread or we. Never held while anything is waited for.
        self._lock = threading.Lock()
        self._busy = False
        self._closed = False
        self._inotify: Inotify | None = None
        try:
            self._inotify = open_inotify()
        except OSError as error:
            self._warn(error)
        else:
            self._loop.add_reader(self._inotify.fd, self._readable, self._inotify)
        self._look()

    def close(self) -> None:
        """No call of `changed` comes after this. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            busy = self._busy
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fd)
            if not busy:
                self._inotify.close()

    def _readable(self, source: Inotify) -> None:
        events = source.read()
        if not self._arming:
            self._extend_burst(events)
        elif len(self._held) < _MAX_HELD:
            self._held += events
        else:
            self._held = [_LOST]

    def _extend_burst(self, events: Iterable[Event]) -> None:
        """Put the end of the burst off, up to a point, if there is anything in it that matters."""
        if any(self._matters(event) for event in events):
            now = self._loop.time()
            self._first = now if self._first is None else self._first
            self._schedule(min(now + QUIET, self._first + LATEST))

    def _matters(self, event: Event) -> bool:
        if event.mask & inotify.OVERFLOW:
            return True
        interest = None if event.mask & inotify.IGNORED else self._watches.get(event.watch)
        return interest is not None and (not event.name or interest.contents or event.name in interest.names)

    def _schedule(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        """Set the watches again, then call `changed`."""
        self._first = None
        self._arming = True
        with self._lock:
            self._busy = True
        self._loop.run_in_executor(None, self._arm).add_done_callback(self._on_armed)

    def _on_armed(self, arming: "asyncio.Future[_Armed]") -> None:
        if self._closed or arming.cancelled():
            return
        self._arming = False
        held, self._held = self._held, []
        self._schedule(self._loop.time() + self._poll_interval)
        armed = arming.result()
        self._watches = armed.watches
        if armed.problem is not None:
            self._warn(armed.problem)
        elif self._inotify is not None:
            self._schedule(self._loop.time() + self._interval)
        self._extend_burst(held)
        self._changed()

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "Cannot watch directory, polling it instead",
                extra={"kv": {"directory": self._directory, "error": str(error), "seconds": self._poll_interval}},
            )

    def _arm(self) -> "_Armed":
        """In the thread: set the watches, and close the descriptor if it was left to us."""
        try:
            return _Armed() if self._inotify is None else _arm(self._inotify, self._directory, self._watches)
        finally:
            with self._lock:
                self._busy = False
                abandoned = self._closed
            if abandoned and self._inotify is not None:
                self._inotify.close()


class _Armed(NamedTuple):
    """The watches that are set, and why some that should be are not."""

    watches: Mapping[int, WatchInterest] = MappingProxyType({})
    problem: OSError | None = None


def _arm(source: Inotify, directory: str, before: Mapping[int, WatchInterest]) -> _Armed:
    """Watch what the plan names until it is the same before and after, and nothing else.

    Watches are set on the way down, so a directory replaced meanwhile is an event in its parent. A link swapped between
    the plan and its watch is not; but then the next plan is another one.
    """
    plan: Mapping[str, WatchInterest] = {}
    armed = _Armed()
    for _ in range(_ROUNDS):
        latest = watch_plan(directory)
        if latest == plan:
            break
        plan = latest
        armed = _add_all(source, plan)
    for watch in before.keys() - armed.watches.keys():
        with suppress(OSError):  # ended with its directory
            source.remove(watch)
    return armed


def _add_all(source: Inotify, plan: Mapping[str, WatchInterest]) -> _Armed:
    watches: dict[int, WatchInterest] = {}
    problem: OSError | None = None
    for directory, interest in plan.items():
        try:
            watch = source.add(directory, _CONTENTS if interest.edits else _STRUCTURE)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone since: its parent says so
        except OSError as error:
            problem = error
            continue
        known = watches.setdefault(watch, WatchInterest())  # one directory may be mounted in two places
        known.names |= interest.names
        known.contents |= interest.contents
    return _Armed(watches, problem)
