"""Find out what the manager has to know about the node. Read once, when it starts; what cannot be read is left out."""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Final

from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.errors import ConfigError
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.paths import Driver
from interpose.host.cgroup.tree import detect_version
from interpose.node.pods.cri_config.dns import ResolvConf, parse_resolv
from interpose.node.pods.cri_config.resources import page_size_name
from interpose.node.pods.node_info import NodeFacts

RESOLV_CONF: Final = "/etc/resolv.conf"
# Where systemd-resolved says whom it asks itself.
_BEHIND_STUB: Final = "run/systemd/resolve/resolv.conf"
_PAGES: Final = re.compile(r"hugepages-([0-9]+)kB", re.ASCII)
_CPU: Final = re.compile(r"cpu[0-9]+", re.ASCII)
# Addresses for documentation: nothing is sent, the kernel only says from where it would be.
_ANYWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_MAX_FILE: Final = 1024 * 1024


def read_node(
    *,
    name: str = "",
    cgroup_driver: Driver = Driver.CGROUPFS,
    cgroup_root: str = "",
    cgroup_mount: str = CGROUP_ROOT,
    addresses: Sequence[str] = (),
    cluster_dns: Sequence[str] = (),
    cluster_domain: str = "cluster.local",
    resolv_conf: str = RESOLV_CONF,
    seccomp_default: bool = False,
    seccomp_root: str = "/var/lib/interpose/seccomp",
    recursive_read_only: bool = False,
    host: str = "/",
) -> NodeFacts:
    """The node as it is now. `host` is where its files are; an empty `resolv_conf` is a node without DNS.

    ConfigError that names a resolv.conf which was asked for and cannot be read.
    """
    top = Path(host)
    memory = _memory(top)
    version = _cgroup_version(cgroup_mount)
    cpus = len(os.sched_getaffinity(0))
    return NodeFacts(
        name=name or socket.gethostname().lower(),
        memory=memory,
        allocatable={"cpu": Fraction(cpus), "memory": Fraction(memory)},
        cgroup_driver=cgroup_driver,
        cgroup_root=cgroup_root,
        cgroup_version=version,
        swap_limits=_swap_limits(top, cgroup_mount, version),
        hugepage_sizes=_hugepage_sizes(top),
        addresses=tuple(addresses) or node_addresses(),
        resolv=_resolv(top, resolv_conf),
        hosts=_text(top / "etc/hosts"),
        cluster_dns=tuple(cluster_dns),
        cluster_domain=cluster_domain,
        seccomp_default=seccomp_default,
        seccomp_root=seccomp_root,
        masked_thermal=tuple(_thermal(top)),
        recursive_read_only=recursive_read_only,
        selinux=(top / "sys/fs/selinux/enforce").exists(),
    )


def node_addresses() -> tuple[str, ...]:
    """The addresses from which the node speaks to others; of a node without a network that to itself."""
    found = []
    for family, target in _ANYWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            found.append(str(probe.getsockname()[0]))
    return tuple(found) or ("127.0.0.1",)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE).decode("utf-8", "replace")
    except OSError:
        return ""


def _memory(top: Path) -> int:
    match = re.search(r"^MemTotal:\s*([0-9]+) kB$", _text(top / "proc/meminfo"), re.MULTILINE | re.ASCII)
    # Never zero: scores are made by dividing by it.
    return int(match[1]) * 1024 if match is not None else 1


def _cgroup_version(mount: str) -> int:
    try:
        return detect_version(KernelFiles(), mount)
    except ConfigError:
        return 1  # a scratch folder


def _swap_limits(top: Path, mount: str, version: int) -> bool:
    if version == 1:
        return Path(mount, "memory/memory.memsw.limit_in_bytes").exists()
    # The root has no such file; our own cgroup has.
    own = re.search(r"^0::/(.*)$", _text(top / "proc/self/cgroup"), re.MULTILINE)
    return own is not None and Path(mount, own[1], "memory.swap.max").exists()


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _hugepage_sizes(top: Path) -> tuple[str, ...]:
    names = _names(top / "sys/kernel/mm/hugepages")
    sizes = sorted(int(match[1]) for name in names if (match := _PAGES.fullmatch(name)))
    return tuple(page_size_name(size * 1024) for size in sizes)


def _thermal(top: Path) -> Iterator[str]:
    cpus = [name for name in _names(top / "sys/devices/system/cpu") if _CPU.fullmatch(name)]
    for cpu in sorted(cpus, key=lambda name: int(name[3:])):
        path = f"sys/devices/system/cpu/{cpu}/thermal_throttle"
        if (top / path).exists():
            yield f"/{path}"


def _resolv(top: Path, path: str) -> ResolvConf:
    if not path:
        return ResolvConf(servers=("127.0.0.1",), searches=(".",))  # nothing is found, and nobody else is asked
    if path != RESOLV_CONF:
        try:
            return parse_resolv(Path(path).read_text(errors="replace"))
        except OSError as error:
            raise ConfigError(f"resolv.conf {path}: {error.strerror}") from None
    found = parse_resolv(_text(top / path.lstrip("/")))
    behind = parse_resolv(_text(top / _BEHIND_STUB))
    # A stub on the node's loopback cannot be reached from a pod's network.
    stub = bool(found.servers) and all(server.startswith("127.") or server == "::1" for server in found.servers)
    return behind if stub and behind.servers else found
