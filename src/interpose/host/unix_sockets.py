"""Listening unix sockets that never displace a live owner and never remove a file of another process.

The ready-made unix servers of event loops unlink whatever they find. Here a socket is bound under a lock, under a
temporary name, and renamed into place when it already listens, so that a client sees the old owner, nothing, or us,
but never a socket that refuses. All calls are synchronous and short; they belong to start and stop.

Before a socket is bound at a path its directory must be safe, the lock on the name held and no foreign file in the way:
only sockets are ever replaced, links are never followed, and an existing directory keeps its mode and owner.
"""

import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from interpose.config.endpoint import MAX_PATH_BYTES, check_path_length
from interpose.errors import ConfigError, SocketInUseError
from interpose.host.peer_credentials import PeerCredentials, check_unowned, peer_credentials

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
    """Whether a directory is below /run, so that we may make it."""
    return any(parent in VOLATILE for parent in directory.resolve().parents)


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


__all__ = ["BoundSocket", "PeerCredentials", "SocketOwner", "adopt", "bind_unix", "owner_like", "peer_credentials"]

_BACKLOG = 512
# From linux/sockios.h: an O_PATH descriptor of the file a unix socket is bound to.
_SIOCUNIXFILE = 0x89E0


class SocketOwner(NamedTuple):
    """Permission bits and owner of a socket file."""

    mode: int
    uid: int
    gid: int


class SocketIdentity(NamedTuple):
    """The identity of a socket's file; stays unique while the socket is open, because that keeps the inode in use."""

    device: int
    inode: int


class BoundSocket:
    """A listening socket, its file and the lock on its name. Exactly one of `close` and `release` ends it."""

    def __init__(self, sock: socket.socket, path: str, identity: SocketIdentity | None, lock_fd: int | None) -> None:
        self.sock = sock
        self.path = path
        self.identity = identity  # None: the file belongs to systemd, it is never unlinked
        self.lock_fd = lock_fd

    @property
    def descriptors(self) -> list[int]:
        """What a successor needs, in the order `adopt` takes it: the socket, then the lock if there is one."""
        return [self.sock.fileno()] if self.lock_fd is None else [self.sock.fileno(), self.lock_fd]

    def close(self) -> None:
        """Stop listening; remove the file if it is still ours. Call it soon after an event loop closed `sock`."""
        try:
            if self.identity is not None and _identity_at(self.path) == self.identity:
                Path(self.path).unlink(missing_ok=True)
        finally:
            self.release()

    def release(self) -> None:
        """Give up our copies of the descriptors and leave the file: a successor holds its own copies."""
        self.identity = None
        self.sock.close()
        if self.lock_fd is not None:
            # Closing frees the lock only when no successor has a copy; LOCK_UN would take it from the successor too.
            # The lock file stays: a starter may have opened it already, and would lock a name that others do not see.
            os.close(self.lock_fd)
            self.lock_fd = None


def bind_unix(
    path: str, *, mode: int = 0o600, uid: int | None = None, gid: int | None = None, backlog: int = _BACKLOG
) -> BoundSocket:
    """Listen at `path`; SocketInUseError names a live owner. A dead socket is replaced, any other file refused.

    The umask is changed while binding and put back; it belongs to the whole process, so call this before threads that
    create files are started.
    """
    check_path_length(path, "socket")
    prepare_directory(Path(path).parent, path)
    lock_fd = lock_name(path)
    try:
        if is_socket(path, path):
            check_unowned(path)
        sock, identity = _bind_and_rename(
            path, SocketOwner(mode, -1 if uid is None else uid, -1 if gid is None else gid), backlog
        )
    except BaseException:
        os.close(lock_fd)
        raise
    return BoundSocket(sock, path, identity, lock_fd)


def adopt(
    sock: socket.socket, lock_fd: int | None, path: str, *, backlog: int = _BACKLOG, owned: bool = True
) -> BoundSocket:
    """Take over a listening socket of a previous instance: from now on we are its owner and unlink its file.

    With `owned=False` (a socket from systemd) the file and the name shown to others stay with systemd.
    """
    sock.setblocking(False)
    if not owned:
        return BoundSocket(sock, path, None, lock_fd)
    # listen() again makes the kernel show our PID, not the previous instance's, to clients.
    sock.listen(backlog)
    return BoundSocket(sock, path, _identity_of(sock, path), lock_fd)


def owner_like(path: str) -> SocketOwner:
    """Mode and owner of an existing socket (a link to it is followed), to be given to one of ours."""
    found = Path(path).stat()
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path}: {kind_of(found.st_mode)}, not a socket: its mode and owner cannot be copied")
    return SocketOwner(stat.S_IMODE(found.st_mode) & 0o777, found.st_uid, found.st_gid)


def _bind_and_rename(path: str, owner: SocketOwner, backlog: int) -> tuple[socket.socket, SocketIdentity]:
    # One fixed name is enough: we hold the lock, so what stands there was left by a starter that died.
    temporary = Path(f"{path}.new")
    if is_socket(str(temporary), path):
        temporary.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        _bind_private(sock, temporary)
        sock.listen(backlog)
        _give(temporary, owner, path)
        identity = _identity_at(str(temporary))
        if identity is None:
            raise FileNotFoundError(f"socket {path}: {temporary} was removed while it was set up")
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        sock.close()
        raise
    return sock, identity


def _bind_private(sock: socket.socket, temporary: Path) -> None:
    """Bind so that no other user can connect before mode and owner are set."""
    directory_fd = os.open(temporary.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    before = os.umask(0o177)
    try:
        # The temporary name may be too long where the final one is not. The detour is not the rule because `ss` and
        # `lsof` go on showing the name that was bound.
        fits = len(os.fsencode(temporary)) <= MAX_PATH_BYTES
        sock.bind(str(temporary) if fits else f"/proc/self/fd/{directory_fd}/{temporary.name}")
    except OSError as exc:
        raise OSError(exc.errno, f"cannot bind socket {temporary}: {exc.strerror}") from exc
    finally:
        os.umask(before)
        os.close(directory_fd)


def _give(temporary: Path, owner: SocketOwner, path: str) -> None:
    """Owner first: until then the mode must not let the wrong group in."""
    try:
        if (owner.uid, owner.gid) != (-1, -1):
            os.chown(temporary, owner.uid, owner.gid, follow_symlinks=False)
        temporary.chmod(owner.mode)
    except OSError as exc:
        wanted = f"mode {owner.mode:04o}, uid {owner.uid}, gid {owner.gid} (-1: unchanged)"
        raise OSError(exc.errno, f"cannot give socket {path} {wanted}: {exc.strerror}") from exc


def _identity_at(path: str) -> SocketIdentity | None:
    try:
        found = Path(path).lstat()
    except OSError:
        return None
    return SocketIdentity(found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None


def _identity_of(sock: socket.socket, path: str) -> SocketIdentity | None:
    """The file of a socket that another process bound, by the kernel (needs CAP_NET_ADMIN) or by the path."""
    try:
        file_fd = fcntl.ioctl(sock, _SIOCUNIXFILE)
    except OSError:
        return _identity_at(path)
    try:
        found = os.fstat(file_fd)
        return SocketIdentity(found.st_dev, found.st_ino)
    finally:
        os.close(file_fd)
