"""Remove a folder with all that is in it, whatever somebody else put there: how deep it is does not matter.

No link is followed and nothing that is mounted is entered. Whoever could write into the tree may have made it deeper
than a path can be long or a process may have files open, and wider than memory: it is walked with two descriptors, up
by `..`, which must be the folder that we came from. As its owner, folders that are closed even for us are opened.
"""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

_ABOVE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER: Final = _ABOVE | os.O_NOFOLLOW
_OURS: Final = 0o700
_BATCH: Final = 4096  # folders of one folder that are remembered at a time
_PATIENCE: Final = 100  # folders that somebody still writes to
_SHOWN: Final = 8  # names of a path in an error


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove what is there, a folder or anything else; nothing there is fine. OSError (EBUSY) if something is mounted
    in it."""
    folder, name = os.path.split(os.fspath(path).rstrip("/"))
    try:
        above = os.open(folder or ".", _ABOVE)
    except FileNotFoundError:
        return
    try:
        remove_at(above, name, folder)
    finally:
        os.close(above)


def remove_at(above: int, name: str, folder: str = "") -> None:
    """The same for a name in an open folder; `folder` is its path, for errors."""
    while True:
        walk = _Walk(above, folder)
        try:
            walk.remove(name)
        except _MovedError:
            # Somebody moves folders about; what was removed so far is gone, so this ends.
            if not walk.removed:
                raise OSError(errno.EBUSY, "is being changed", f"{folder}/{name}") from None
        else:
            return
        finally:
            walk.close()


class _MovedError(Exception):
    """The folder above is not the one that we came from."""


@dataclass(slots=True, kw_only=True)
class _Level:
    """A folder that we are in, or below."""

    name: str
    identity: tuple[int, int]
    before: int  # how many were removed when it was entered
    folders: list[str] = field(default_factory=list)  # in it, to be entered
    more: bool = False  # there are others


class _Walk:
    """One way through a tree. `removed`: how many names are gone."""

    def __init__(self, above: int, folder: str) -> None:
        self.removed = 0
        self._above = above
        self._folder = folder
        self._device = os.fstat(above).st_dev
        self._here = os.dup(above)
        self._levels: list[_Level] = []
        self._patience = _PATIENCE

    def close(self) -> None:
        """Leave."""
        os.close(self._here)

    def remove(self, name: str) -> None:
        """Remove a name in the folder above."""
        self._remove(name)
        while self._levels:
            level = self._levels[-1]
            if level.folders:
                self._remove(level.folders.pop())
            elif level.more:
                self._scan(level)
            else:
                self._up()
                if not self._gone(level.name):
                    self._again(level)

    def _again(self, level: _Level) -> None:
        """Not all that was in it has been seen: it came meanwhile."""
        self._patience -= 1
        if self.removed == level.before or self._patience < 0:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), self._path(level.name))
        self._down(level.name)

    def _remove(self, name: str) -> None:
        if not self._gone(name):
            self._down(name)

    def _gone(self, name: str) -> bool:
        """Whether a name is gone now: it is not a folder, or an empty one. The kernel refuses if anything is mounted on
        it, which is found out here before it could be entered."""
        try:
            try:
                os.rmdir(name, dir_fd=self._here)
            except NotADirectoryError:
                os.unlink(name, dir_fd=self._here)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise self._named(error, name) from None
        self.removed += 1
        return True

    def _down(self, name: str) -> None:
        try:
            inner = self._open(name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._named(error, name) from None
        found = os.fstat(inner)
        os.close(self._here)
        self._here = inner
        level = _Level(name=name, identity=(found.st_dev, found.st_ino), before=self.removed)
        self._levels.append(level)
        # Of folders only: on an overlay the files of lower layers have other devices.
        if found.st_dev != self._device:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), self._path())
        if found.st_mode & _OURS != _OURS:
            with suppress(OSError):
                os.fchmod(inner, _OURS)
        self._scan(level)

    def _open(self, name: str) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=self._here)
        except PermissionError:
            closed = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._here)
            try:
                os.chmod(f"/proc/self/fd/{closed}", _OURS)  # noqa: PTH101
            finally:
                os.close(closed)
            return os.open(name, _FOLDER, dir_fd=self._here)

    def _scan(self, level: _Level) -> None:
        level.more = False
        with os.scandir(self._here) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    self._unlink(entry.name)
                elif len(level.folders) < _BATCH:
                    level.folders.append(entry.name)
                else:
                    level.more = True
                    return

    def _unlink(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._here)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._named(error, name) from None
        self.removed += 1

    def _up(self) -> None:
        self._levels.pop()
        above = os.open("..", _FOLDER, dir_fd=self._here) if self._levels else os.dup(self._above)
        os.close(self._here)
        self._here = above
        if self._levels:
            found = os.fstat(above)
            if (found.st_dev, found.st_ino) != self._levels[-1].identity:
                raise _MovedError

    def _named(self, error: OSError, name: str) -> OSError:
        return OSError(error.errno, os.strerror(error.errno or 0), self._path(name))

    def _path(self, *last: str) -> str:
        names = [*(level.name for level in self._levels[:_SHOWN]), *last]
        return "/".join([self._folder, *names[:_SHOWN], *(["..."] if len(self._levels) > _SHOWN else [])])
