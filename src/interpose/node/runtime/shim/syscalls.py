"""System calls that Python does not have."""

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1

_SYS_ADMIN = 1 << 21

_libc = ctypes.CDLL(None, use_errno=True)


def may_isolate() -> bool:
    """Whether we may mount and create namespaces. Root is not enough: inside a container it often may not."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/status") as file:  # noqa: PTH123
        held = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff:")), 0)
    return bool(held & _SYS_ADMIN)


def check(result: int, name: str) -> int:
    """Return the result of a C function; OSError with `name` if it is -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int | bytes) -> None:
    """Call prctl(2) for this process."""
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    zero = ctypes.c_ulong(0)
    check(_libc.prctl(option, argument, zero, zero, zero), f"prctl({option})")


def unshare(flags: int) -> None:
    """Move this process into new namespaces (a PID namespace: its children)."""
    check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Move this process into an existing namespace."""
    check(_libc.setns(fd, kind), "setns")


def loopback_up() -> None:
    """Bring up `lo` of the network namespace we are in."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
