"""The two formats of whiteouts in a layer on disk: entries that hide files of the layers below.

`OVERLAY` is the format of the kernel's overlay file system: a character device 0/0, and an attribute of folders. It
needs root. `MARKED` keeps the names of tar files; it cannot be mounted, only copied. A store has one format.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from interpose.node.runtime.images.layers.tar_names import OPAQUE, WHITEOUT

_ATTRIBUTE: Final = "trusted.overlay.opaque"
_YES: Final = b"y"


class WhiteoutFormat(Protocol):
    """A format of whiteouts. Folders are descriptors for writing, paths for reading."""

    name: str

    def hide(self, folder: int, name: str) -> None:
        """Write a whiteout of a name."""

    def is_hidden(self, folder: str, name: str) -> bool:
        """Whether there is a whiteout of a name."""

    def show(self, folder: int, name: str) -> bool:
        """Remove the whiteout of a name; whether there was one."""

    def make_opaque(self, folder: int) -> None:
        """Make a folder opaque: it hides all entries of the layers below."""

    def is_opaque(self, folder: str) -> bool:
        """Whether a folder is opaque."""

    def is_mark(self, entry: "os.DirEntry[str]") -> bool:
        """Whether an entry is a whiteout or an opaque mark."""

    def hidden_name(self, entry: "os.DirEntry[str]") -> str:
        """The name that a whiteout hides; empty for an opaque mark."""


class _Overlay:
    name = "overlay"

    def hide(self, folder: int, name: str) -> None:
        os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=folder)

    def is_hidden(self, folder: str, name: str) -> bool:
        try:
            return is_whiteout(os.lstat(f"{folder}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def show(self, folder: int, name: str) -> bool:
        try:
            found = is_whiteout(os.stat(name, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            return False
        if found:
            os.unlink(name, dir_fd=folder)
        return found

    def make_opaque(self, folder: int) -> None:
        os.setxattr(folder, _ATTRIBUTE, _YES)

    def is_opaque(self, folder: str) -> bool:
        try:
            return os.getxattr(folder, _ATTRIBUTE, follow_symlinks=False) == _YES
        except OSError:
            return False

    def is_mark(self, entry: "os.DirEntry[str]") -> bool:
        return is_whiteout(entry.stat(follow_symlinks=False))

    def hidden_name(self, entry: "os.DirEntry[str]") -> str:
        return entry.name


class _Marked:
    name = "marked"

    def hide(self, folder: int, name: str) -> None:
        _touch(folder, WHITEOUT + name)

    def is_hidden(self, folder: str, name: str) -> bool:
        return os.path.lexists(f"{folder}/{WHITEOUT}{name}")

    def show(self, folder: int, name: str) -> bool:
        try:
            os.unlink(WHITEOUT + name, dir_fd=folder)
        except OSError:  # a name of 252 bytes and more cannot have one
            return False
        return True

    def make_opaque(self, folder: int) -> None:
        _touch(folder, OPAQUE)

    def is_opaque(self, folder: str) -> bool:
        return os.path.lexists(f"{folder}/{OPAQUE}")

    def is_mark(self, entry: "os.DirEntry[str]") -> bool:
        return entry.name.startswith(WHITEOUT)

    def hidden_name(self, entry: "os.DirEntry[str]") -> str:
        return "" if entry.name == OPAQUE else entry.name.removeprefix(WHITEOUT)


OVERLAY: Final[WhiteoutFormat] = _Overlay()
MARKED: Final[WhiteoutFormat] = _Marked()
FORMATS: Final = {form.name: form for form in (OVERLAY, MARKED)}


def is_whiteout(found: os.stat_result) -> bool:
    """Whether a file is a whiteout in the kernel's format."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def detect_format(folder: Path) -> WhiteoutFormat:
    """The best format that works in a folder, which is left as it was."""
    trial = folder / f"trial-{os.getpid()}"
    trial.mkdir()
    descriptor = os.open(trial, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        OVERLAY.hide(descriptor, "x")
        OVERLAY.make_opaque(descriptor)
        return OVERLAY if OVERLAY.is_opaque(str(trial)) and OVERLAY.is_hidden(str(trial), "x") else MARKED
    except OSError:
        return MARKED
    finally:
        with suppress(FileNotFoundError):
            os.unlink("x", dir_fd=descriptor)
        os.close(descriptor)
        trial.rmdir()


def _touch(folder: int, name: str) -> None:
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder))
