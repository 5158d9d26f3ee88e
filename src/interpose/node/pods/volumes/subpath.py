"""A path inside a volume, opened so that no link leads out of the volume, not even one that is put there meanwhile.

Containers write in volumes, so what is in one is not to be trusted. Links that stay inside are followed.
"""

import errno
import os
import stat
from typing import Final

from interpose.core.model.text import quoted

_PATH: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def check_sub_path(text: str) -> None:
    """ValueError if a text cannot be a path inside a volume."""
    if text.startswith("/") or ".." in text.split("/") or "\0" in text:
        raise ValueError(f"subPath {quoted(text)} must be a relative path without '..'")


def open_inside(volume: str, sub_path: str, *, create: bool) -> tuple[int, str]:
    """A descriptor for a path inside a volume, and the real path it has now. The caller closes it.

    A folder that is missing is made if `create`, with the volume's mode. ValueError if the path leads out of the
    volume; OSError if it is not there.
    """
    check_sub_path(sub_path)
    base = os.path.realpath(volume)
    real = os.path.realpath(f"{base}/{sub_path}")
    if real != base and not real.startswith(f"{base.rstrip('/')}/"):
        raise ValueError(f"subPath {quoted(sub_path)} leads out of the volume")
    fd = os.open(base, _PATH)
    try:
        # A volume that is a single file (hostPath) has nothing inside.
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        for part in filter(None, real[len(base) :].split("/")):
            below = _open(fd, part, mode if create else None)
            os.close(fd)
            fd = below
            if stat.S_ISLNK(os.fstat(fd).st_mode):  # it was none a moment ago
                raise ValueError(f"subPath {quoted(sub_path)} was changed into a link while it was looked at")
    except BaseException:
        os.close(fd)
        raise
    return fd, real


def _open(folder: int, name: str, mode: int | None) -> int:
    try:
        return os.open(name, _PATH, dir_fd=folder)
    except FileNotFoundError:
        if mode is None:
            raise
    try:
        os.mkdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EEXIST:  # somebody else was faster
            raise
    else:
        # The mode that was asked for, whatever our umask is; through /proc, as a path descriptor cannot be changed.
        made = os.open(name, _PATH, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{made}", mode)  # noqa: PTH101
        finally:
            os.close(made)
    return os.open(name, _PATH, dir_fd=folder)
