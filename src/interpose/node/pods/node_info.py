"""What the manager has to know about the node it runs on. A value; `nodereading` makes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from interpose.core.model.cgroup import PERIOD
from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cri_config.dns import ResolvConf
from interpose.node.pods.cri_config.env import DownwardApiContext
from interpose.node.pods.cri_config.resources import ResourceRules
from interpose.node.pods.spec import no_amounts

_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The node. `allocatable` is what pods may have of it; a limit that is not given counts as that."""

    name: str
    memory: int  # bytes
    allocatable: Mapping[str, Fraction] = field(default_factory=no_amounts)
    cgroup_driver: Driver = Driver.CGROUPFS
    cgroup_root: str = ""  # the pods' part of the tree is below it
    cgroup_version: int = 1
    swap_limits: bool = False  # whether the kernel can limit swap
    hugepage_sizes: tuple[str, ...] = ()  # as cgroups call them: 2MB
    addresses: tuple[str, ...] = ()
    resolv: ResolvConf = field(default_factory=ResolvConf)
    hosts: str = ""  # the node's /etc/hosts
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    cpu_quota: bool = True
    cpu_quota_period: int = PERIOD
    seccomp_default: bool = False  # RuntimeDefault instead of Unconfined where a pod says nothing
    seccomp_root: str = "/var/lib/interpose/seccomp"  # where Localhost profiles are
    masked_thermal: tuple[str, ...] = ()  # more paths of /sys that containers do not see
    recursive_read_only: bool = False  # whether the runtime can make mounts read-only to their leaves
    selinux: bool = False  # whether files have labels that decide who may have them

    @property
    def rules(self) -> ResourceRules:
        """What bears on shares, quotas and limits."""
        return ResourceRules(
            memory=self.memory,
            cgroup_version=self.cgroup_version,
            cpu_quota=self.cpu_quota,
            period=self.cpu_quota_period,
            hugepage_sizes=self.hugepage_sizes,
            swap=self.swap_limits,
        )

    def reach(self, ips: tuple[str, ...], *, host_network: bool) -> tuple[str, ...]:
        """Where a pod with these addresses is reached; in the node's network it has the node's. Empty: nowhere."""
        return ips or (self.addresses or (_LOOPBACK,) if host_network else ())

    def around(self, ips: tuple[str, ...]) -> DownwardApiContext:
        """What bears on the fields of a pod with these addresses."""
        return DownwardApiContext(node_name=self.name, host_ips=self.addresses, ips=ips, allocatable=self.allocatable)
