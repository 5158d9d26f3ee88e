"""The files of one recording: what they are called, and who may rename which.

FILE is the newest. Older ones have a number before the suffix that grows: `calls.000001.crirec` is the oldest,
`calls.000002.crirec` follows, `calls.crirec` is last. So `calls*.crirec` in a shell is all of them, oldest first, and a
file keeps its name once it has a number.

Two processes may use the same FILE: a relay and the one that takes over from it. Invariant: FILE is replaced only by
somebody who holds the lock of the very file that has this name, in one step, and it is made only where there is none.
So whoever has lost the name to another process finds out, and never touches what is that one's; and there is no moment
without a FILE in which somebody else could take the name.

Which ones are kept: the newest, but small ones go before large ones that are older. A process that ends soon after its
start and is started again and again leaves small ones; they must not push out what was recorded before.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from interpose.dump.model.frames import MAGIC
from interpose.errors import ConfigError

_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW
# The lock is held for a rename. Somebody who holds it for longer is not one of us.
_LOCK_ATTEMPTS: Final = 50
_LOCK_PAUSE: Final = 0.01
_SHOWN: Final = 16
# Fewer bytes than this are of a process that ended soon.
SMALL: Final = 64 << 10
_LAST_NUMBER: Final = 999_999_999
# What file systems without a second name for a file say.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# How often the name may be taken by somebody else before we give up.
_NAME_ATTEMPTS: Final = 10


def rotated_path(path: Path, number: int) -> Path:
    """What FILE is called when there is a newer one."""
    return path.with_name(f"{path.stem}.{number:06d}{path.suffix}")


def rotated_set(path: str | Path) -> list[Path]:
    """All files of a recording that exist, oldest first, found by the name of the newest."""
    newest = Path(path)
    files = [file for file in _numbered(newest).values() if _can_be_read(file)]
    # Somebody who was killed just then has left a file with a number that is FILE as well.
    if newest.exists() and not (files and files[-1].exists() and newest.samefile(files[-1])):
        files.append(newest)
    return files


def open_new(path: Path) -> int:
    """A new FILE to write to; one that is there gets a number.

    ConfigError if that is not a recording: it is left alone. OSError if there cannot be one.
    """
    for _ in range(_NAME_ATTEMPTS):
        with suppress(FileExistsError):
            try:
                fd = _open_old(path)
            except FileNotFoundError:
                return create_file(path)
            try:
                return replace_open_file(path, fd)
            finally:
                os.close(fd)
    raise FileExistsError(errno.EEXIST, "other processes keep making this file", str(path))


def create_file(path: Path) -> int:
    """A new FILE to write to, for its owner alone; FileExistsError if there is one."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)


def replace_open_file(path: Path, fd: int) -> int:
    """A new FILE to write to in the place of the open one, which gets a number.

    If somebody has moved the open one away, FILE is just made; FileExistsError if there is another one.
    """
    with _locked(fd):
        if not is_open_file(path, fd):
            return create_file(path)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
        fresh.unlink(missing_ok=True)
        new = create_file(fresh)
        try:
            _give_number(path, fd)
            fresh.replace(path)
        except OSError:
            os.close(new)
            fresh.unlink(missing_ok=True)
            raise
        return new


def is_open_file(path: Path, fd: int) -> bool:
    """Whether this open file is the one with this name."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    ours = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)


def remove_surplus(path: Path, keep: int) -> None:
    """Remove files until so many with a number are left: first empty ones, then small ones, then others, the oldest of
    them first, and the newest of all in the end. Never what is not a recording.
    """
    sizes = {file: size for file in _numbered(path).values() if (size := _recording_size(file)) is not None}
    newest = next(reversed(sizes), None)
    # Stable: by age otherwise.
    files = sorted(sizes, key=lambda file: (file == newest, sizes[file] > 0, sizes[file] >= SMALL))
    for file in files[: max(0, len(files) - keep)]:
        file.unlink(missing_ok=True)


def bad_beginning(data: bytes) -> str:
    """What is wrong with the first bytes of a file, if it cannot be a recording; empty if it can."""
    if data.startswith(MAGIC) or MAGIC.startswith(data):
        return ""
    return f"not a recording: it begins with {data[:_SHOWN]!r}, a recording begins with {MAGIC!r}"


def _give_number(path: Path, fd: int) -> None:
    """A second name for the open FILE, if it has none yet."""
    taken = _numbered(path)
    if taken and is_open_file(list(taken.values())[-1], fd):
        return
    number = max(taken, default=0) + 1
    if number > _LAST_NUMBER:
        raise OSError(errno.EOVERFLOW, "no number is left for a file, rename the ones that have the highest", str(path))
    numbered = rotated_path(path, number)
    try:
        numbered.hardlink_to(path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(numbered):  # made just now: a rename would replace it
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(numbered)) from None
        path.rename(numbered)


def _open_old(path: Path) -> int:
    """The FILE that is there, if it is one that may be replaced."""
    try:
        # Opened without waiting: it may be a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ConfigError(f"{path}: not a regular file, nothing is recorded there") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ConfigError(f"{path}: not a regular file, nothing is recorded there")
        if strange := bad_beginning(os.read(fd, _SHOWN)):
            raise ConfigError(f"{path}: {strange}; it is left as it is, choose another name")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _recording_size(path: Path) -> int | None:
    """Bytes of a recording; None if it is none or cannot be read."""
    try:
        fd = _open_old(path)
    except (OSError, ConfigError):
        return None
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _can_be_read(path: Path) -> bool:
    """Whether nobody waits for ever who opens it; what is wrong with it otherwise is for the reader to say."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _numbered(path: Path) -> dict[int, Path]:
    """Files with a number, by it, in order. One of more digits is not ours."""
    form = re.compile(re.escape(path.stem) + r"\.([0-9]{6,9})" + re.escape(path.suffix))
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - only names are needed
    except (FileNotFoundError, NotADirectoryError):
        return {}
    matches = ((form.fullmatch(name), name) for name in names)
    return dict(sorted((int(found[1]), path.with_name(name)) for found, name in matches if found))


@contextmanager
def _locked(fd: int) -> Iterator[None]:
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if attempt == _LOCK_ATTEMPTS - 1:
                raise
            time.sleep(_LOCK_PAUSE)
        except OSError:
            break  # a file system without locks: then there is none
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
