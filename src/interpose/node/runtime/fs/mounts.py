"""mount(2) and umount2(2), and the few mounts that a sandbox needs.

All of it is synchronous and may wait for the kernel: for threads, not for the loop.
"""

import ctypes
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from interpose.node.runtime.fs import mount_table
from interpose.node.runtime.fs.mount_table import MountPoint
from interpose.node.runtime.oci.spec_types import PROPAGATION_BIDIRECTIONAL, PROPAGATION_HOST_TO_CONTAINER, SpecError

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2
UMOUNT_NOFOLLOW: Final = 8
SHM_SIZE: Final = 64 << 20
_TABLE: Final = "/proc/self/mountinfo"
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Call mount(2); OSError names the target."""
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind) if kind else None,
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def unmount(target: str, flags: int = MNT_DETACH | UMOUNT_NOFOLLOW) -> bool:
    """Unmount all mounts at a path, in use or not; False if there was none."""
    found = False
    while _libc.umount2(os.fsencode(target), flags) == 0:
        found = True
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
        raise OSError(code, os.strerror(code), target)
    return found


def mounts(table: str = _TABLE) -> tuple[MountPoint, ...]:
    """The mounts in our mount namespace."""
    with Path(table).open(encoding="utf-8", errors="surrogateescape") as lines:
        return mount_table.parse(lines.read())


def mounts_below(folder: str, table: str = _TABLE) -> list[str]:
    """Mount points at and below a folder, in the order in which they can be unmounted."""
    # Tables are long on a node with many pods: only lines with the last part of the path are parsed, if that is plain.
    name = folder.rstrip("/").rpartition("/")[2]
    plain = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    with Path(table).open(encoding="utf-8", errors="surrogateescape") as lines:
        text = "".join(line for line in lines if not plain or name in line)
    return mount_table.below(mount_table.parse(text), folder)


def unmount_below(folder: str, table: str = _TABLE) -> list[str]:
    """Unmount everything at and below a folder; returns the mount points."""
    places = mounts_below(folder, table)
    for place in places:
        unmount(place)
    return places


def mount_shm(path: str, size: int = SHM_SIZE) -> None:
    """Mount the shared memory of a sandbox at a folder, which is made if needed; may be repeated."""
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
    if os.path.ismount(path):
        return
    mount("shm", path, "tmpfs", MS_NOEXEC | MS_NOSUID | MS_NODEV, f"mode=1777,size={size}")


def bind(source: str, target: str, *, readonly: bool = False) -> None:
    """Bind mount a folder at another path, with private propagation."""
    mount(source, target, "", MS_BIND | MS_REC)
    try:
        mount("", target, "", MS_PRIVATE | MS_REC)
        if readonly:
            mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)
    except OSError:
        with suppress(OSError):
            unmount(target)
        raise


def prepare_sources(
    wanted: Sequence[Any],
    table: Iterable[MountPoint] | None = None,
    on_path: Callable[[str], None] = lambda _path: None,
) -> dict[str, str]:
    """The host paths of CRI's mounts with links followed; missing folders are made. Calls `on_path` with each path.

    SpecError names a mount whose source cannot be used, or cannot have its propagation.
    """
    found: dict[str, str] = {}
    for number, mount_config in enumerate(wanted):
        if not mount_config.host_path:
            continue
        where = f"mounts[{number}].host_path"
        if not mount_config.host_path.startswith("/"):
            raise SpecError(where, f"{mount_config.host_path!r} is not an absolute path")
        on_path(mount_config.host_path)
        real = os.path.realpath(mount_config.host_path)
        try:
            if not os.path.lexists(real):
                os.makedirs(real, mode=0o755)  # noqa: PTH103
        except (OSError, ValueError) as error:
            raise SpecError(where, f"{mount_config.host_path!r} cannot be made: {error}") from None
        if mount_config.propagation in (PROPAGATION_HOST_TO_CONTAINER, PROPAGATION_BIDIRECTIONAL):
            table = mounts() if table is None else table
            _check_propagation(where, mount_config, mount_table.of_path(table, real))
        found[mount_config.host_path] = real
    return found


def _check_propagation(where: str, mount_config: Any, mount_point: MountPoint | None) -> None:
    kind = mount_point.propagation if mount_point is not None else "private"
    if mount_config.propagation == PROPAGATION_BIDIRECTIONAL and kind != "shared":
        raise SpecError(
            where, f"{mount_config.host_path!r} is on a {kind} mount; bidirectional propagation needs a shared one"
        )
    if kind not in ("shared", "slave"):
        raise SpecError(
            where, f"{mount_config.host_path!r} is on a {kind} mount; propagation needs a shared or slave one"
        )
