"""Which capabilities a process gets: the default ones, with some added and some dropped. Pure.

Names are taken with or without `CAP_`, in any case, as people write them.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from interpose.node.runtime.oci.spec_types import SpecError

# By number: bit n of the masks in /proc/<pid>/status.
ALL: Final[tuple[str, ...]] = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
)
DEFAULT: Final[tuple[str, ...]] = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
)
_ALL_NAME: Final = "CAP_ALL"
_WHERE: Final = "linux.security_context.capabilities"


def from_mask(mask: int) -> tuple[str, ...]:
    """The names of the bits in a mask of the kernel; bits without a name are left out."""
    return tuple(name for number, name in enumerate(ALL) if mask >> number & 1)


def sets(wanted: Any, *, privileged: bool, ours: Collection[str]) -> dict[str, list[str]]:
    """The capability sets of a process: `wanted` is CRI's Capability, `ours` are those of the runtime.

    A named capability that the runtime lacks is an error; of ALL and the defaults those are left out. Nothing is
    inheritable unless it is ambient: programs of other owners must not gain by it.
    """
    if privileged:
        base = _in_order(ours)
        return _document(base, ())
    ambient = _parse_names(wanted.add_ambient_capabilities, "add_ambient_capabilities", ours)
    added = _parse_names(wanted.add_capabilities, "add_capabilities", ours)
    dropped = _parse_names(wanted.drop_capabilities, "drop_capabilities", ALL)
    if _ALL_NAME in added or _ALL_NAME in ambient:
        chosen = set(ours)
    else:
        chosen = set() if _ALL_NAME in dropped else set(DEFAULT) & set(ours)
    chosen -= dropped
    chosen |= (added | ambient) - {_ALL_NAME}
    raised = (set(ours) - dropped if _ALL_NAME in ambient else ambient) - {_ALL_NAME}
    return _document(_in_order(chosen), _in_order(raised))


def _parse_names(names: Iterable[str], field: str, known: Collection[str]) -> set[str]:
    found = set()
    for name in names:
        full = name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"
        if full != _ALL_NAME and full not in ALL:
            raise SpecError(f"{_WHERE}.{field}", f"{name!r} is not a capability")
        if full != _ALL_NAME and full not in known:
            raise SpecError(f"{_WHERE}.{field}", f"{full} cannot be given: the runtime itself does not have it")
        found.add(full)
    return found


def _in_order(chosen: Collection[str]) -> list[str]:
    return [name for name in ALL if name in chosen]


def _document(base: list[str], ambient: Sequence[str]) -> dict[str, list[str]]:
    document = {"bounding": base, "effective": list(base), "permitted": list(base)}
    if ambient:
        document |= {"inheritable": list(ambient), "ambient": list(ambient)}
    return document
