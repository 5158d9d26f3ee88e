"""The demo's node: a machine, three pods and what must become of them, two versions of a NodeSLO, and where it all is.

Tables and files only; nothing here prints or decides. Every value that the demo shows has its line in `POD_VALUES`.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.api import cri_pb2 as cri
from interpose.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.model.qos import QOS_LABEL, QosClass
from interpose.runtimehooks.podspec import EXTENDED_RESOURCES
from interpose.testing import pods
from interpose.testing.sysfstree import write_sysfs
from interpose.topology.text import parse_text

NAMESPACE: Final = "shop"
CONTAINER: Final = "main"
MACHINE: Final = "2 sockets x 4 cores x 2 threads"
CPUS: Final = "0-15"
_GIB: Final = 1 << 30
_BOTH: Final = (Level.POD, Level.CONTAINER)
_POD: Final = (Level.POD,)
_CONTAINER: Final = (Level.CONTAINER,)


class DemoPod(NamedTuple):
    """A pod with one container: what Kubernetes is told, and what Koordinator's webhook and scheduler write on it."""

    name: str
    qos: QosClass
    kube_qos: pods.QosClass
    asks: str  # for people
    resources: cri.LinuxContainerResources
    annotations: Mapping[str, str]

    def configs(self) -> tuple[cri.PodSandboxConfig, cri.ContainerConfig]:
        """As a kubelet sends them."""
        labels = {QOS_LABEL: str(self.qos)}
        pod = pods.pod_config(self.name, NAMESPACE, labels=labels, annotations=self.annotations, qos=self.kube_qos)
        pod.linux.resources.CopyFrom(self.resources)
        return pod, pods.container_config(pod, CONTAINER, resources=self.resources)


_BATCH: Final = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}
RESIDENTS: Final = (
    DemoPod(
        name="web",
        qos=QosClass.LS,
        kube_qos="burstable",
        asks="half a CPU, up to 2",
        resources=pods.linux_resources(cpu_request=500, cpu_limit=2000, memory_limit=_GIB),
        annotations={},
    ),
    DemoPod(
        name="reports",
        qos=QosClass.BE,
        kube_qos="besteffort",
        asks="1500m batch CPU and 2Gi batch memory, unknown to CRI",
        resources=cri.LinuxContainerResources(cpu_period=100_000, cpu_shares=2, oom_score_adj=1000),
        annotations={
            EXTENDED_RESOURCES: json.dumps({"containers": {CONTAINER: {"requests": _BATCH, "limits": _BATCH}}})
        },
    ),
)
GUEST: Final = DemoPod(
    name="orders",
    qos=QosClass.LSR,
    kube_qos="guaranteed",
    asks="4 CPUs, Guaranteed",
    resources=pods.linux_resources(cpu_request=4000, cpu_limit=4000, memory_limit=4 * _GIB, oom_score_adj=-997),
    annotations={},
)
PODS: Final = (*RESIDENTS, GUEST)


class Due(NamedTuple):
    """A value that must be there, chapter by chapter.

    As asked for; when its pod has started; with the guest there; after the NodeSLO was edited; without the guest.
    """

    parameter: Parameter
    levels: tuple[Level, ...]
    asked: Value
    started: Value
    arrived: Value
    edited: Value
    left: Value


def _due(
    parameter: Parameter,
    levels: tuple[Level, ...],
    asked: Value,
    started: Value,
    *,
    arrived: Value | None = None,
    edited: Value | None = None,
    left: Value | None = None,
) -> Due:
    """What is not said is as it was before."""
    with_guest = started if arrived is None else arrived
    after_edit = with_guest if edited is None else edited
    return Due(parameter, levels, asked, started, with_guest, after_edit, after_edit if left is None else left)


# All CPUs are no restriction, and count as none.
_SHARES: Final = _due(Parameter.CPUSET_CPUS, _CONTAINER, CLEAR, CLEAR, arrived="0-1,6-15", left=CLEAR)
POD_VALUES: Final[Mapping[str, tuple[Due, ...]]] = MappingProxyType(
    {
        "web": (
            _SHARES,
            _due(Parameter.CPU_BVT, _POD, 0, 2, edited=1),
        ),
        "reports": (
            _SHARES,
            _due(Parameter.CPU_SHARES, _BOTH, 2, 1536),
            _due(Parameter.CPU_QUOTA, _BOTH, UNLIMITED, 150_000, edited=UNLIMITED),
            _due(Parameter.MEMORY_LIMIT, _BOTH, UNLIMITED, 2 * _GIB),
            _due(Parameter.CPU_BVT, _POD, 0, -1),
        ),
        "orders": (
            _due(Parameter.CPUSET_CPUS, _CONTAINER, CLEAR, "2-5"),
            _due(Parameter.CPU_BVT, _POD, 0, 2),
        ),
    }
)

# -- the node's policy

BEFORE: Final = """\
resourceQOSStrategy:
  lsrClass: {cpuQOS: {enable: true, groupIdentity: 2}}
  lsClass: {cpuQOS: {enable: true, groupIdentity: 2}}
  beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
"""
AFTER: Final = """\
resourceQOSStrategy:
  lsrClass: {cpuQOS: {enable: true, groupIdentity: 2}}
  lsClass: {cpuQOS: {enable: true, groupIdentity: 1}}
  beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
resourceUsedThresholdWithBE: {enable: true, cpuSuppressPolicy: cfsQuota}
"""


def edit(path: Path, text: str) -> None:
    """Replace a file in one step, as editors and mounted ConfigMaps do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


# -- where everything is


class Places(NamedTuple):
    """The demo's folder."""

    folder: Path

    @property
    def cri(self) -> Path:
        """The socket of the relay."""
        return self.folder / "cri.sock"

    @property
    def runtime(self) -> Path:
        """The socket of the runtime."""
        return self.folder / "runtime.sock"

    @property
    def relay_admin(self) -> Path:
        """The admin socket of the relay."""
        return self.folder / "relay-admin.sock"

    @property
    def admin(self) -> Path:
        """The admin socket of the hook server."""
        return self.folder / "hookserver-admin.sock"

    @property
    def agent_admin(self) -> Path:
        """The admin socket of the agent."""
        return self.folder / "agent-admin.sock"

    @property
    def kubeconfig(self) -> Path:
        """How the agent finds the API server."""
        return self.folder / "kubeconfig"

    @property
    def nodeslo(self) -> Path:
        """The node's policy."""
        return self.folder / "nodeslo.yaml"

    @property
    def host(self) -> Path:
        """What stands for the root of the host."""
        return self.folder / "host"

    @property
    def cgroups(self) -> Path:
        """What stands for /sys/fs/cgroup."""
        return self.host / "sys/fs/cgroup"

    def prepare(self) -> None:
        """Directories and files that a node has."""
        (self.folder / "hookserver.d").mkdir(mode=0o755)
        boot = self.host / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("0d3a8ae1-6f3c-4e5c-9d2b-3a7c1d9f0b42\n")
        write_sysfs(parse_text(MACHINE), self.host)
        edit(self.nodeslo, BEFORE)

    def environment(self) -> dict[str, str]:
        """All paths of the programs, so that their command lines are as short as on a node."""
        folder = self.folder
        return {
            "INTERPOSE_LISTEN": str(self.cri),
            "INTERPOSE_RUNTIME_ENDPOINT": str(self.runtime),
            "INTERPOSE_ADMIN_LISTEN": str(self.relay_admin),
            "INTERPOSE_HOOKS_DIR": str(folder / "hookserver.d"),
            "INTERPOSE_HOST_ROOT": str(self.host),
            "INTERPOSE_STATE_DIR": str(folder / "state"),
            "INTERPOSE_CONFIG_SOCKET": str(folder / "config.sock"),
            "INTERPOSE_AGENT_KUBECONFIG": str(self.kubeconfig),
            "INTERPOSE_AGENT_CONFIG_SOCKET": str(folder / "config.sock"),
            "INTERPOSE_AGENT_AGENT_SOCKET": str(folder / "agent.sock"),
            "INTERPOSE_AGENT_ADMIN_LISTEN": str(self.agent_admin),
            "INTERPOSE_AGENT_NODE_STATE_FILE": str(folder / "node/state.json"),
            "INTERPOSE_HOOKSERVER_LISTEN": str(folder / "hooks.sock"),
            "INTERPOSE_HOOKSERVER_NODESLO": str(self.nodeslo),
            "INTERPOSE_HOOKSERVER_RUNTIME_ENDPOINT": str(self.cri),
            "INTERPOSE_HOOKSERVER_ADMIN_LISTEN": str(self.admin),
            "INTERPOSE_HOOKSERVER_HOOKS_DIR": str(folder / "hookserver.d"),
            "INTERPOSE_HOOKSERVER_STATE_DIR": str(folder / "state"),
            "INTERPOSE_HOOKSERVER_KUBELET_STATE_DIR": str(folder / "kubelet"),
            "INTERPOSE_HOOKSERVER_CGROUP_ROOT": str(self.cgroups),
            "INTERPOSE_HOOKSERVER_PROC_ROOT": str(self.host / "proc"),
            "INTERPOSE_HOOKSERVER_SYS_ROOT": str(self.host / "sys"),
        }


_OTHERS: Final = ("INTERPOSE_", "LISTEN_", "NOTIFY_", "WATCHDOG_")


def forget_settings() -> None:
    """Settings of the shell are for other relays."""
    for name in [name for name in os.environ if name.startswith(_OTHERS)]:
        del os.environ[name]
