"""The file system of a container, made in a mount namespace of its own: mounts, devices, then a new root. For root.

Targets are looked up inside the root file system: a link in an image leads nowhere else.
"""

import ctypes
import os
import stat

from interpose.node.runtime.plain.scoped_path import inside
from interpose.node.runtime.shim import syscalls

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC = 1, 2, 4, 8, 32, 4096, 16384
_PRIVATE, _SLAVE, _SHARED, _NOATIME, _RELATIME, _STRICTATIME = 1 << 18, 1 << 19, 1 << 20, 1024, 1 << 21, 1 << 24
_DETACH = 2

_FLAGS = {"ro": _RDONLY, "nosuid": _NOSUID, "nodev": _NODEV, "noexec": _NOEXEC, "noatime": _NOATIME}
_FLAGS |= {"relatime": _RELATIME, "strictatime": _STRICTATIME, "bind": _BIND, "rbind": _BIND | _REC}
_PROPAGATION = {"private": _PRIVATE, "rprivate": _PRIVATE | _REC, "slave": _SLAVE, "rslave": _SLAVE | _REC}
_PROPAGATION |= {"shared": _SHARED, "rshared": _SHARED | _REC}
_NOT_DATA = frozenset({"rw", "suid", "dev", "exec", "async", "atime", "diratime", "rro"})
# What is needed in /dev; the second number is the minor of major 1, but for the terminal.
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2); OSError names source and target."""
    words = [word.encode() if word else None for word in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), data.encode() if data else None)
    syscalls.check(result, f"mount {source} on {target}")


def enter(config: dict[str, object], bundle: str) -> None:
    """Set up mounts and devices of a bundle, and pivot to its root. We are in a new mount namespace."""
    entry = config.get("root")
    root_config = entry if isinstance(entry, dict) else {}
    root = os.path.join(bundle, str(root_config.get("path", "rootfs")))  # noqa: PTH118
    mount("", "/", "", _PRIVATE | _REC)
    mount(root, root, "", _BIND | _REC)
    mounts = config.get("mounts")
    for item in mounts if isinstance(mounts, list) else []:
        _mount_entry(root, item)
    linux = config.get("linux")
    _devices(root, linux if isinstance(linux, dict) else {})
    os.chdir(root)
    syscalls.check(_libc.pivot_root(b".", b"."), "pivot_root")
    syscalls.check(_libc.umount2(b".", _DETACH), "umount2")
    os.chdir("/")
    _hide(linux if isinstance(linux, dict) else {})
    if root_config.get("readonly"):
        mount("", "/", "", _REMOUNT | _BIND | _RDONLY)


def options(words: object) -> tuple[int, list[int], str]:
    """Parse the options of a mount: flags, changes of propagation, data."""
    flags, changes, data = 0, [], []
    for word in words if isinstance(words, list) else []:
        if word in _FLAGS:
            flags |= _FLAGS[word]
        elif word in _PROPAGATION:
            changes.append(_PROPAGATION[word])
        elif word not in _NOT_DATA:
            data.append(str(word))
    return flags, changes, ",".join(data)


def _mount_entry(root: str, entry: dict[str, object]) -> None:
    kind, source = str(entry.get("type", "")), str(entry.get("source", ""))
    if kind == "cgroup":
        return  # the host's are not shown
    flags, changes, data = options(entry.get("options"))
    bind = bool(flags & _BIND) or kind == "bind"
    target = inside(root, str(entry["destination"]))
    _make_target(target, folder=not bind or os.path.isdir(source))  # noqa: PTH112
    if bind:
        mount(source, target, "", _BIND | (flags & _REC))
        rest = flags & ~(_BIND | _REC)
        if rest:
            mount("", target, "", rest | _REMOUNT | _BIND)
    else:
        mount(source or kind, target, kind, flags, data)
    for change in changes:
        mount("", target, "", change)


def _make_target(target: str, *, folder: bool) -> None:
    if os.path.lexists(target):
        return
    os.makedirs(target if folder else os.path.dirname(target), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
    if not folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _devices(root: str, linux: dict[str, object]) -> None:
    dev = inside(root, "/dev")
    os.makedirs(dev, exist_ok=True)  # noqa: PTH103
    mask = os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        _device(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor), f"/dev/{name}")
    devices = linux.get("devices")
    for entry in devices if isinstance(devices, list) else []:
        kind = stat.S_IFBLK if entry.get("type") == "b" else stat.S_IFCHR
        path = inside(root, str(entry["path"]))
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
        number = os.makedev(int(entry.get("major", 0)), int(entry.get("minor", 0)))
        _device(path, kind | int(entry.get("fileMode", 0o666)) & 0o777, number, str(entry["path"]))
        os.chown(path, int(entry.get("uid", 0)), int(entry.get("gid", 0)))
    os.umask(mask)
    for name, target in _LINKS.items():
        if not os.path.lexists(f"{dev}/{name}"):
            os.symlink(target, f"{dev}/{name}")  # noqa: PTH211
    if os.path.exists(f"{dev}/pts/ptmx") and not os.path.lexists(f"{dev}/ptmx"):  # noqa: PTH110
        os.symlink("pts/ptmx", f"{dev}/ptmx")  # noqa: PTH211


def _device(path: str, mode: int, number: int, host: str) -> None:
    if os.path.lexists(path):
        return
    try:
        os.mknod(path, mode, number)
    except PermissionError:  # it may not be created, but bind mounted
        _make_target(path, folder=False)
        mount(host, path, "", _BIND)


def _hide(linux: dict[str, object]) -> None:
    masked, readonly = linux.get("maskedPaths"), linux.get("readonlyPaths")
    for path in masked if isinstance(masked, list) else []:
        if os.path.isdir(path):  # noqa: PTH112
            mount("tmpfs", path, "tmpfs", _RDONLY)
        elif os.path.exists(path):  # noqa: PTH110
            mount("/dev/null", path, "", _BIND)
    for path in readonly if isinstance(readonly, list) else []:
        if os.path.exists(path):  # noqa: PTH110
            mount(path, path, "", _BIND | _REC)
            mount("", path, "", _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | _NOEXEC)
