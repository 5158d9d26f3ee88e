"""The credentials of a process: user, groups, capabilities, limits. Missing rights are dropped, never raised."""

import ctypes
import os
import resource

from interpose.node.runtime.shim import syscalls

# In the kernel's order: the position is the number.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
_PR_SET_KEEPCAPS, _PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 8, 23, 24, 38, 47
_CAP_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def mask(names: object) -> int:
    """Capabilities as bits; unknown names are left out."""
    bits = 0
    for name in names if isinstance(names, list) else []:
        short = str(name).removeprefix("CAP_")
        if short in CAPABILITIES:
            bits |= 1 << CAPABILITIES.index(short)
    return bits


def become(process: dict[str, object]) -> None:
    """Take on user, groups, capabilities and limits of a process description. For root only."""
    set_limits(process)
    sets = process.get("capabilities")
    caps = sets if isinstance(sets, dict) else {}
    bounding = mask(caps.get("bounding"))
    for number in range(len(CAPABILITIES)):
        if not bounding >> number & 1 and _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            syscalls.check(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), "prctl(PR_CAPBSET_DROP)")
    entry = process.get("user")
    user = entry if isinstance(entry, dict) else {}
    syscalls.prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([int(group) for group in user.get("additionalGids") or []])
    os.setgid(int(user.get("gid", 0)))
    os.setuid(int(user.get("uid", 0)))
    syscalls.prctl(_PR_SET_KEEPCAPS, 0)
    _set_capabilities(caps)
    if "umask" in user:
        os.umask(int(user["umask"]))
    if process.get("noNewPrivileges"):
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def set_limits(process: dict[str, object]) -> None:
    """Limits of resources, as far as they may be set."""
    limits = process.get("rlimits")
    for limit in limits if isinstance(limits, list) else []:
        number = getattr(resource, str(limit.get("type")), None)
        if number is None:
            continue
        try:
            resource.setrlimit(number, (int(limit["soft"]), int(limit["hard"])))
        except (ValueError, OSError):
            continue


def set_oom_score(score: object) -> None:
    """oom_score_adj of this process and its children; what may not be lowered stays."""
    if isinstance(score, int):
        try:
            with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
                file.write(str(score))
        except OSError:
            return


def _set_capabilities(caps: dict[str, object]) -> None:
    own = _permitted()
    effective, permitted, inheritable = (
        mask(caps.get(kind)) & own for kind in ("effective", "permitted", "inheritable")
    )
    header = (ctypes.c_uint32 * 2)(_CAP_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    for half in range(2):
        for place, bits in enumerate((effective & permitted, permitted, inheritable)):
            data[half * 3 + place] = bits >> 32 * half & 0xFFFFFFFF
    syscalls.check(_libc.capset(header, data), "capset")
    ambient = mask(caps.get("ambient")) & permitted & inheritable
    for number in range(len(CAPABILITIES)):
        if ambient >> number & 1:
            syscalls.check(_libc.prctl(_PR_CAP_AMBIENT, 2, number, 0, 0), "prctl(PR_CAP_AMBIENT)")


def _permitted() -> int:
    with open("/proc/self/status") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("CapPrm:"):
                return int(line.split()[1], 16)
    return 0
