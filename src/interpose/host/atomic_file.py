"""Files that are replaced as a whole: every reader, and whenever we are stopped, finds the old file or the new one.

A new one is written beside the old one, brought to the disk, and put in its place in one step.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def replace_file(path: str, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Put a file with this content in the place of the one that is there; OSError if that cannot be done.

    A directory is made if there was none, for its owner alone. Without `sync` a power failure may leave an empty file.
    """
    folder, name = os.path.split(path)
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # With our number: a process that takes over from another one has a file of its own.
        replace_at(directory, name, data, temporary=f"{name}.{os.getpid()}.tmp", mode=mode, sync=sync)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error  # a full disk names no file by itself
    finally:
        os.close(directory)


def replace_at(
    directory: int, name: str, data: bytes, *, temporary: str, mode: int = 0o600, sync: bool = True
) -> os.stat_result:
    """Like `replace_file`, in an open directory; returns the stat of the new file. A file `temporary` is replaced."""
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    try:
        found = _write(directory, temporary, data, mode, sync=sync)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    if sync:
        os.fsync(directory)
    return found


def remove_leftovers(path: str) -> None:
    """Remove what processes that were killed in `replace_file` left behind."""
    for pid in numbers_beside(path, r"([0-9]{1,9})\.tmp"):
        if not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                os.unlink(f"{path}.{pid}.tmp")  # noqa: PTH108


def numbers_beside(path: str, form: str) -> list[int]:
    """The numbers in the names of files beside this one: NAME.FORM."""
    folder, name = os.path.split(path)
    pattern = re.compile(re.escape(f"{name}.") + form, re.ASCII)
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208
    except OSError:
        return []
    return [int(match[1]) for other in names if (match := pattern.fullmatch(other))]


def _write(directory: int, name: str, data: bytes, mode: int, *, sync: bool) -> os.stat_result:
    fd = os.open(name, _NEW, mode, dir_fd=directory)
    try:
        os.fchmod(fd, mode)  # whatever our umask is
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if sync:
            os.fsync(fd)
        return os.fstat(fd)
    finally:
        os.close(fd)
