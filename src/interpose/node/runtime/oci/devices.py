"""Devices of containers: of CRI's Device and of the whole machine.

Node and rights are read from the host. A device that vanishes meanwhile is left out of "all devices", and an error if
the configuration names it.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from posixpath import normpath
from typing import Any, Final

from interpose.node.runtime.oci.spec_types import OciDevice, SpecError

_KINDS: Final = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}
_ACCESS: Final = frozenset("rwm")
# Entries of /dev that every container has of its own.
_OWN: Final = frozenset({"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"})
_CONSOLE: Final = "console"
_PERMISSIONS: Final = 0o7777


def all_devices(folder: str = "/dev") -> tuple[OciDevice, ...]:
    """Every device node of the machine, for privileged containers."""
    return tuple(sorted(_walk(folder, folder, skip=_OWN), key=lambda device: device.path))


def wanted_devices(
    devices: Sequence[Any], on_path: Callable[[str], None] = lambda _path: None
) -> tuple[OciDevice, ...]:
    """CRI's devices: a node, or all nodes of a folder; calls `on_path` with each path. SpecError names a bad one."""
    found: list[OciDevice] = []
    for number, device in enumerate(devices):
        where = f"devices[{number}]"
        access = device.permissions or "rwm"
        if not set(access) <= _ACCESS:
            raise SpecError(f"{where}.permissions", f"{device.permissions!r} is not made of r, w and m")
        if not device.host_path:
            raise SpecError(f"{where}.host_path", "is empty")
        on_path(device.host_path)
        inside = normpath(device.container_path or device.host_path)
        real = os.path.realpath(device.host_path)
        try:
            if stat.S_ISDIR(os.stat(real).st_mode):  # noqa: PTH116
                found += _walk(real, inside, skip=frozenset(), access=access)
                continue
            node = _node(real, inside, access)
        except OSError as error:
            raise SpecError(f"{where}.host_path", f"{device.host_path!r}: {error.strerror}") from None
        if node is None:
            raise SpecError(f"{where}.host_path", f"{device.host_path!r} is not a device")
        found.append(node)
    return tuple({device.path: device for device in found}.values())


def _walk(folder: str, inside: str, *, skip: frozenset[str], access: str = "rwm") -> Iterator[OciDevice]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if name in skip or (skip and name == _CONSOLE):
            continue
        path = f"{folder}/{name}"
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode):
                yield from _walk(path, f"{inside}/{name}", skip=skip, access=access)
            elif (node := _node(path, f"{inside}/{name}", access)) is not None:
                yield node
        except OSError:
            continue


def _node(path: str, inside: str, access: str) -> OciDevice | None:
    found = os.lstat(path)
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is None:
        return None
    return OciDevice(
        path=inside,
        kind=kind,
        major=os.major(found.st_rdev),
        minor=os.minor(found.st_rdev),
        mode=found.st_mode & _PERMISSIONS,
        uid=found.st_uid,
        gid=found.st_gid,
        access=access,
    )
