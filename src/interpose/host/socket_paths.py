"""What must hold before a socket is bound at a path: a safe directory, the lock on the name, no foreign file.

Only sockets are ever replaced, links are never followed, and a directory we did not create stays as it is.
"""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from interpose.errors import ConfigError, SocketInUseError
from interpose.host.peer_credentials import check_unowned

# Others may pass through a directory of ours but not list it; the mode of each socket decides who may connect.
_DIRECTORY_MODE = 0o711
# Where daemons make directories of their own: nothing below is kept over a boot.
VOLATILE = (Path("/run"), Path("/var/run"))
_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
}


def prepare_directory(directory: Path, path: str) -> None:
    """Create what is missing below /run, which is empty after a boot; elsewhere a path without a directory is mistyped.

    Refuse a directory in which others could swap the socket for theirs.
    """
    missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
    if missing and not is_volatile(directory):
        raise ConfigError(
            f"socket {path}: directory {missing[-1]} does not exist; directories are made below /run only, make this "
            "one or choose another path"
        )
    for parent in reversed(missing):
        with suppress(FileExistsError):
            parent.mkdir(mode=0o700)
            parent.chmod(_DIRECTORY_MODE)  # mkdir's own mode is cut by the umask
    mode = directory.stat().st_mode
    if not stat.S_ISDIR(mode):
        raise ConfigError(f"socket {path}: {directory} is {kind_of(mode)}, not a directory")
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise ConfigError(
            f"socket {path}: directory {directory} has mode {stat.S_IMODE(mode):04o}, others may write to it and could "
            f"replace the socket; take group and other write permission away (chmod go-w {directory})"
        )


def is_volatile(directory: Path) -> bool:
    """Whether a directory may be ours to make."""
    return any(one in VOLATILE for one in directory.resolve().parents)


def lock_name(path: str) -> int:
    """The descriptor of `<path>.lock`, exclusively locked: one starter at a time decides about the name."""
    name = f"{path}.lock"
    if Path(name).is_symlink():
        raise ConfigError(f"socket {path}: the lock file {name} is a symbolic link, remove it")
    lock_fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(lock_fd).st_mode):
            raise ConfigError(f"socket {path}: the lock file {name} is not a regular file, remove it")
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock_fd)
        check_unowned(path)
        raise SocketInUseError(path, None) from None
    except BaseException:
        os.close(lock_fd)
        raise
    return lock_fd


def is_socket(name: str, path: str) -> bool:
    """Whether a socket stands at `name`; False if nothing does, an error for anything else."""
    try:
        mode = Path(name).lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"socket {path}: {name} is {kind_of(mode)}, not a socket; remove it or choose another path")
    return True


def kind_of(mode: int) -> str:
    """What a file is, in words for a message."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")
