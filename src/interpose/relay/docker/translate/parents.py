"""Cgroup parents in the forms of Docker and of CRI.

With the cgroupfs driver both have a path. With systemd Docker has the name of a slice, and CRI the path that leads to
it. Pure; the two are each other's inverse.
"""

from interpose.core.model.cgroupparent import SUFFIX, slice_path


def shown(parent: str) -> str:
    """Docker's cgroup parent as CRI has it."""
    return slice_path(parent) if _is_slice(parent) else parent


def written(path: str, before: str) -> str:
    """CRI's as Docker has it, in the form of what was there; where nothing was, a slice is systemd's."""
    systemd = _is_slice(before) if before else path.endswith(SUFFIX)
    return path.rstrip("/").rpartition("/")[2] if systemd else path


def cgroups_path(parent: str, container_id: str) -> str:
    """The cgroup of a container as its OCI view names it; empty if Docker does not say where it is."""
    if not parent:
        return ""
    return f"{parent}:docker:{container_id}" if _is_slice(parent) else f"{parent.rstrip('/')}/{container_id}"


def _is_slice(parent: str) -> bool:
    return "/" not in parent and parent.endswith(SUFFIX)
