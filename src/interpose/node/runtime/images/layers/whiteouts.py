"""The two forms a layer can have on disk: what says that something of the layers below is gone.

`OVERLAY` is what the kernel's overlay file system reads: a character device 0/0, and an attribute of folders. It takes
root. `MARKED` keeps the names that layers have in tar files; nobody can mount that, only copy it. A store has one form.
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
    """How whiteouts are written and read. Folders are open ones for writing, paths for reading."""

    name: str

    def hide(self, folder: int, name: str) -> None:
        """Write a whiteout of a name."""

    def hidden(self, folder: str, name: str) -> bool:
        """Whether there is one."""

    def show(self, folder: int, name: str) -> bool:
        """Remove the whiteout of a name; whether there was one."""

    def seal(self, folder: int) -> None:
        """Hide all that is below in a folder."""

    def sealed(self, folder: str) -> bool:
        """Whether that was done."""

    def is_mark(self, entry: "os.DirEntry[str]") -> bool:
        """Whether an entry of a folder is only there to say something about the layers below."""

    def hidden_name(self, entry: "os.DirEntry[str]") -> str:
        """The name that a mark hides; empty if it is about the whole folder."""


class _Overlay:
    name = "overlay"

    def hide(self, folder: int, name: str) -> None:
        os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=folder)

    def hidden(self, folder: str, name: str) -> bool:
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

    def seal(self, folder: int) -> None:
        os.setxattr(folder, _ATTRIBUTE, _YES)

    def sealed(self, folder: str) -> bool:
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

    def hidden(self, folder: str, name: str) -> bool:
        return os.path.lexists(f"{folder}/{WHITEOUT}{name}")

    def show(self, folder: int, name: str) -> bool:
        try:
            os.unlink(WHITEOUT + name, dir_fd=folder)
        except OSError:  # a name of 252 bytes and more cannot have one
            return False
        return True

    def seal(self, folder: int) -> None:
        _touch(folder, OPAQUE)

    def sealed(self, folder: str) -> bool:
        return os.path.lexists(f"{folder}/{OPAQUE}")

    def is_mark(self, entry: "os.DirEntry[str]") -> bool:
        return entry.name.startswith(WHITEOUT)

    def hidden_name(self, entry: "os.DirEntry[str]") -> str:
        return "" if entry.name == OPAQUE else entry.name.removeprefix(WHITEOUT)


OVERLAY: Final[WhiteoutFormat] = _Overlay()
MARKED: Final[WhiteoutFormat] = _Marked()
FORMATS: Final = {form.name: form for form in (OVERLAY, MARKED)}


def is_whiteout(found: os.stat_result) -> bool:
    """The kernel's own form."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def detect_format(folder: Path) -> WhiteoutFormat:
    """The best form that can be written in a folder, and read again; the folder is left as it was."""
    trial = folder / f"trial-{os.getpid()}"
    trial.mkdir()
    descriptor = os.open(trial, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        OVERLAY.hide(descriptor, "x")
        OVERLAY.seal(descriptor)
        return OVERLAY if OVERLAY.sealed(str(trial)) and OVERLAY.hidden(str(trial), "x") else MARKED
    except OSError:
        return MARKED
    finally:
        with suppress(FileNotFoundError):
            os.unlink("x", dir_fd=descriptor)
        os.close(descriptor)
        trial.rmdir()


def _touch(folder: int, name: str) -> None:
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder))
