"""Resources and cgroups of a container for an OCI runtime. Pure.

CRI's zero and empty values mean "not set": such a key is left out, so that a document is also a patch.
"""

from collections.abc import Mapping
from typing import Any, Final

from interpose.node.runtime.oci.spec_types import HostFacts, SpecError

DEFAULT_PARENT: Final = "/interpose"
SCOPE_PREFIX: Final = "cri-interpose"
SYSTEMD: Final = "systemd"
_SLICE: Final = ".slice"
_LONGEST_NAME: Final = 255  # of the kernel
# The kernel takes 4096 bytes; there are also the root before it, and a container with its own cgroups behind it.
_LONGEST_PARENT: Final = 3000
_OOM_LIMIT: Final = 1000
# A negative quota, whichever, is none to runtimes and kernels.
_LOWEST: Final = (
    ("cpu_shares", 0),
    ("cpu_period", 0),
    ("memory_limit_in_bytes", -1),
    ("memory_swap_limit_in_bytes", -1),
)
_CPU: Final = (
    ("shares", "cpu_shares"),
    ("quota", "cpu_quota"),
    ("period", "cpu_period"),
    ("cpus", "cpuset_cpus"),
    ("mems", "cpuset_mems"),
)


def check_resources(resources: Any) -> None:
    """Refuse numbers that no OCI runtime accepts: its own errors come late, and name no field."""
    for field, lowest in _LOWEST:
        if (value := getattr(resources, field)) < lowest:
            raise SpecError(f"linux.resources.{field}", f"{value} is less than {lowest}")
    check_oom_score(resources.oom_score_adj)


def check_oom_score(wanted: int) -> None:
    """Refuse a score that the kernel does not accept."""
    if not -_OOM_LIMIT <= wanted <= _OOM_LIMIT:
        raise SpecError("linux.resources.oom_score_adj", f"{wanted} is not between -{_OOM_LIMIT} and {_OOM_LIMIT}")


def oci_resources(resources: Any, host: HostFacts) -> dict[str, Any]:
    """CRI's LinuxContainerResources as `linux.resources` of the specification, without devices."""
    document: dict[str, Any] = {}
    if cpu := {key: value for key, field in _CPU if (value := getattr(resources, field))}:
        document["cpu"] = cpu
    if memory := _memory(resources, host):
        document["memory"] = memory
    pages = [{"pageSize": pages.page_size, "limit": pages.limit} for pages in resources.hugepage_limits]
    # The kubelet names every page size of the machine; without the controller none of them can be limited.
    if pages and host.hugetlb:
        document["hugepageLimits"] = pages
    if host.cgroup_version == 2 and resources.unified:
        for name in resources.unified:
            if "/" in name or not name.strip():
                raise SpecError("linux.resources.unified", f"{name!r} is not a name of a file")
        document["unified"] = dict(resources.unified)
    return document


def _memory(resources: Any, host: HostFacts) -> dict[str, int]:
    """Limits of memory; a limit without one of swap means no swap, as far as the kernel counts it."""
    document = {}
    if limit := resources.memory_limit_in_bytes:
        document["limit"] = limit
    if host.swap and (swap := resources.memory_swap_limit_in_bytes or limit):
        document["swap"] = swap
    return document


def merge_resources(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The resources in force after a patch: its keys replace, other keys stay."""
    merged = dict(old)
    for key, value in new.items():
        if key == "hugepageLimits":
            sizes = {limit["pageSize"]: limit for limit in (*old.get(key, ()), *value)}
            merged[key] = list(sizes.values())
        else:
            merged[key] = {**old.get(key, {}), **value}
    return merged


def check_parent(parent: str, driver: str) -> None:
    """Refuse a parent in which no cgroup can be made. One of an old record may be longer: it has to be removed."""
    length = len(cgroup_directory(parent, "", driver).encode())
    if length > _LONGEST_PARENT:
        raise SpecError("linux.cgroup_parent", f"its path has {length} bytes, more than {_LONGEST_PARENT}")


def cgroup_path(parent: str, name: str, driver: str) -> str:
    """`linux.cgroupsPath`: a directory, or slice:prefix:name for systemd."""
    if driver == SYSTEMD:
        return f"{_slice(parent)}:{SCOPE_PREFIX}:{name}"
    return f"{_confined(parent)}/{name}"


def cgroup_directory(parent: str, name: str, driver: str) -> str:
    """The same as a directory below the root of the cgroups."""
    if driver != SYSTEMD:
        return cgroup_path(parent, name, driver)
    parts = _slice(parent).removesuffix(_SLICE).split("-")
    slices = ("-".join(parts[: end + 1]) + _SLICE for end in range(len(parts)))
    return f"/{'/'.join(slices)}/{SCOPE_PREFIX}-{name}.scope"


def _slice(parent: str) -> str:
    """The last name of a path is enough: systemd's slices say where they are themselves."""
    name = _confined(parent).rpartition("/")[2] if parent else f"system{_SLICE}"
    if not name.endswith(_SLICE) or "" in name.removesuffix(_SLICE).split("-"):
        raise SpecError("linux.cgroup_parent", f"{parent!r} is not a slice, as systemd's cgroups need it")
    return name


def _confined(parent: str) -> str:
    if not parent:
        return DEFAULT_PARENT
    parts = [part for part in parent.split("/") if part]
    odd = any(part in (".", "..") or len(part.encode()) > _LONGEST_NAME for part in parts)
    if not parts or odd or "\0" in parent or ":" in parent:
        raise SpecError("linux.cgroup_parent", f"{parent!r} is not a directory below the root of the cgroups")
    return "/" + "/".join(parts)
