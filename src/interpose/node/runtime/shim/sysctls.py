"""Kernel settings that a sandbox may have: those of its own namespaces. No IO.

Everything else would be changed for the whole machine.
"""

import re

_IPC = re.compile(r"kernel\.(shm[a-z_]*|msg[a-z_]*|sem)|fs\.mqueue\.[a-z_]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*")


def sysctl_problem(name: str, *, network: bool, ipc: bool) -> str | None:
    """The reason why a sysctl cannot be set, or None. Names have dots, or slashes throughout."""
    dotted = dotted_name(name)
    if dotted is None:
        return f"sysctl {name!r} is not a name of a kernel setting"
    if dotted.startswith("net."):
        return None if network else f"sysctl {name!r} needs a network namespace, the pod uses the host's"
    if _IPC.fullmatch(dotted):
        return None if ipc else f"sysctl {name!r} needs an IPC namespace, the pod uses the host's"
    return f"sysctl {name!r} is not in a namespace: it would change the whole machine"


def sysctl_path(name: str) -> str:
    """The path of a sysctl below /proc/sys."""
    return name if "/" in name else name.replace(".", "/")


def dotted_name(name: str) -> str | None:
    """The name with dots between its parts; None if it is invalid. With slashes a part may have dots."""
    parts = name.split("/") if "/" in name else name.split(".")
    good = all(_NAME.fullmatch(part) for part in parts)
    return ".".join(parts) if good else None
