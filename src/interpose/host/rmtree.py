"""Remove a folder with all that is in it, whatever other users put there: how deep it is does not matter.

No link is followed and nothing that is mounted is entered. A user who could write into the tree may have made it deeper
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
_MOST_REENTRIES: Final = 100  # folders that are still written to
_MOST_NAMES: Final = 8  # names of a path in an error


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove what is there, a folder or anything else; nothing there is fine. OSError (EBUSY) if something is mounted
    in it."""
    folder, name = os.path.split(os.fspath(path).rstrip("/"))
    try:
        parent = os.open(folder or ".", _ABOVE)
    except FileNotFoundError:
        return
    try:
        remove_at(parent, name, folder)
    finally:
        os.close(parent)


def remove_at(parent: int, name: str, folder: str = "") -> None:
    """The same for a name in an open folder; `folder` is its path, for errors."""
    while True:
        removal = _TreeRemoval(parent, folder)
        try:
            removal.remove(name)
        except _MovedError:
            # Another process moves folders; what was removed so far stays removed, so this ends.
            if not removal.removed:
                raise OSError(errno.EBUSY, "is being changed", f"{folder}/{name}") from None
        else:
            return
        finally:
            removal.close()


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


class _TreeRemoval:
    """One pass through a tree. `removed` is the number of names removed so far."""

    def __init__(self, parent: int, folder: str) -> None:
        self.removed = 0
        self._parent = parent
        self._folder = folder
        self._device = os.fstat(parent).st_dev
        self._here = os.dup(parent)
        self._levels: list[_Level] = []
        self._reentries_left = _MOST_REENTRIES

    def close(self) -> None:
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
                self._leave()
                if not self._try_remove(level.name):
                    self._enter_again(level)

    def _enter_again(self, level: _Level) -> None:
        """Enter a folder again that got new entries meanwhile; ENOTEMPTY if that happens too often."""
        self._reentries_left -= 1
        if self.removed == level.before or self._reentries_left < 0:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), self._path(level.name))
        self._enter(level.name)

    def _remove(self, name: str) -> None:
        if not self._try_remove(name):
            self._enter(name)

    def _try_remove(self, name: str) -> bool:
        """Remove a file or an empty folder; False if the folder is not empty. The kernel refuses if anything is mounted
        on it, which is found out here before it could be entered."""
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
            raise self._with_path(error, name) from None
        self.removed += 1
        return True

    def _enter(self, name: str) -> None:
        try:
            inner = self._open(name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._with_path(error, name) from None
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
            raise self._with_path(error, name) from None
        self.removed += 1

    def _leave(self) -> None:
        self._levels.pop()
        parent = os.open("..", _FOLDER, dir_fd=self._here) if self._levels else os.dup(self._parent)
        os.close(self._here)
        self._here = parent
        if self._levels:
            found = os.fstat(parent)
            if (found.st_dev, found.st_ino) != self._levels[-1].identity:
                raise _MovedError

    def _with_path(self, error: OSError, name: str) -> OSError:
        return OSError(error.errno, os.strerror(error.errno or 0), self._path(name))

    def _path(self, *last: str) -> str:
        names = [*(level.name for level in self._levels[:_MOST_NAMES]), *last]
        return "/".join([self._folder, *names[:_MOST_NAMES], *(["..."] if len(self._levels) > _MOST_NAMES else [])])
