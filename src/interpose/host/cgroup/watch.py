"""Watches for cgroups that appear or vanish, and reports it within a tenth of a second.

Bursts become one call: 20 ms of quiet end one, 60 ms at the latest. The kernel reports one directory at a time, so
the owner says which ones matter.

Invariant: what is made or removed in a followed directory after `follow` has returned leads to a call of `changed`, as
long as `complete` is true. So follow first, and then look what is there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from interpose.host import inotify
from interpose.host.cgroup.paths import check_confined
from interpose.host.inotify import Event, Inotify

QUIET: Final = 0.020
LATEST: Final = 0.060

_ISDIR: Final = 0x40000000
_CHILDREN: Final = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_ITSELF: Final = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.IGNORED

_log = logging.getLogger(__name__)


class CgroupWatch:
    """Watches directories of one hierarchy on the running loop, until `close`.

    Setting a watch is a look-up in the kernel's own memory, so it is done on the loop.
    """

    def __init__(
        self, root: str, changed: Callable[[], None], *, open_inotify: Callable[[], Inotify] = Inotify
    ) -> None:
        self.complete = True  # whether every followed directory that exists is watched
        self._root = root
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._wanted: frozenset[str] = frozenset()
        self._watches: dict[str, int] = {}
        self._directories: dict[int, str] = {}
        self._first: float | None = None  # when the burst began whose end `_timer` waits for
        self._timer: asyncio.TimerHandle | None = None
        self._warned = False
        self._inotify: Inotify | None = None
        try:
            self._inotify = open_inotify()
        except OSError as error:
            self._incomplete(error)
        else:
            self._loop.add_reader(self._inotify.fd, self._readable, self._inotify)

    def follow(self, directories: Iterable[str]) -> None:
        """Watch these directories, as `paths` names them, and no others. An empty name is the root."""
        self._wanted = frozenset(directory and check_confined(directory) for directory in directories)
        if self._inotify is None:
            return
        for directory in self._watches.keys() - self._wanted:
            self._directories.pop(watch := self._watches.pop(directory), None)
            with suppress(OSError):  # ended with its directory
                self._inotify.remove(watch)
        self._arm(self._inotify)

    def close(self) -> None:
        """No call of `changed` comes after this. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fd)
            self._inotify.close()
            self._inotify = None

    def _arm(self, source: Inotify) -> None:
        """Watch what shall be watched and is not. Directories that do not exist are left out."""
        trouble: OSError | None = None
        for directory in sorted(self._wanted - self._watches.keys()):
            try:
                watch = source.add(f"{self._root}/{directory}".rstrip("/"), _CHILDREN | inotify.DELETE_SELF)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                trouble = error
                break  # the limit is one for all
            self._watches[directory] = watch
            self._directories[watch] = directory
        if trouble is not None:
            self._incomplete(trouble)
        else:
            self.complete = True

    def _readable(self, source: Inotify) -> None:
        matters = False
        for event in source.read():
            matters |= self._matters(event)
        if matters:
            now = self._loop.time()
            self._first = now if self._first is None else self._first
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(min(now + QUIET, self._first + LATEST), self._report)

    def _matters(self, event: Event) -> bool:
        if event.mask & inotify.OVERFLOW:
            return True
        directory = self._directories.get(event.watch)
        if directory is None:
            return False  # a late event of a watch that has ended
        if event.mask & inotify.IGNORED:
            del self._directories[event.watch]
            del self._watches[directory]
        return bool(event.mask & (_ISDIR | _ITSELF))

    def _report(self) -> None:
        self._timer = self._first = None
        if self._inotify is not None:
            self._arm(self._inotify)  # one that was removed and made again has lost its watch
        self._changed()

    def _incomplete(self, error: OSError) -> None:
        self.complete = False
        if not self._warned:
            self._warned = True
            _log.warning(
                "Cannot watch all cgroups, new ones are found by the next periodic reconciliation",
                extra={"kv": {"root": self._root, "watched": len(self._watches), "error": str(error)}},
            )
