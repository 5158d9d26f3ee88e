"""Reading and writing the kernel's small files: the one way in which cgroups, /proc and resctrl are touched.

An interface, so that tests can put a fake kernel behind it. Paths are absolute. Errors are the system's own
OSError: a file that is gone is normal, EINVAL and EBUSY are the kernel's answer to a value.
"""

import errno
import os
from typing import Protocol

_READ_BYTES = 1 << 16
# A first read that gives less is the whole file. Lists (of processes, say) come in pieces of about a page.
_WHOLE = 512
_DELETED = " (deleted)"


class CgroupFiles(Protocol):
    """The file operations that code for cgroups, /proc and resctrl needs."""

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def directories(self, path: str) -> list[str]:
        """Names of the directories in a directory."""

    def make_directory(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...


class KernelFiles:
    """The files of the running kernel."""

    def read(self, path: str) -> str:
        """All of a file. No buffering: many small files are read in one round."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks = []
            while chunk := os.read(descriptor, _READ_BYTES):
                chunks.append(chunk)
                if len(chunk) < _WHOLE and len(chunks) == 1:
                    break
            return b"".join(chunks).decode("utf-8", "replace")
        finally:
            os.close(descriptor)

    def write(self, path: str, text: str) -> None:
        """Replace what is in a file that exists, in one system call as the kernel's files want it.

        A path that leads through a link is refused with ELOOP before anything is changed: what is written is where the
        path says.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            opened = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - the same calls everywhere here
            if opened != os.path.normpath(path):
                gone = opened.endswith(_DELETED)
                raise OSError(code := errno.ENOENT if gone else errno.ELOOP, os.strerror(code), path)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Whether there is something at this path."""
        return os.access(path, os.F_OK)

    def directories(self, path: str) -> list[str]:
        """Names of the directories in a directory."""
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def make_directory(self, path: str) -> None:
        """Make a directory; FileExistsError if there is one."""
        os.mkdir(path)  # noqa: PTH102 - the same calls everywhere in this class

    def remove_directory(self, path: str) -> None:
        """Remove a directory; the kernel's own are removed with the files in them."""
        os.rmdir(path)  # noqa: PTH106
