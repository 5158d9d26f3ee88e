"""The demo's node: three pods and what must become of them, two versions of a NodeSLO, and the programs to run.

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
from interpose.runtimehooks.podspec import EXTENDED_RESOURCES, RESOURCE_STATUS
from interpose.testing import pods

NAMESPACE: Final = "shop"
CPUS: Final = "0-7"
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
        return pod, pods.container_config(pod, "main", resources=self.resources)


_BATCH: Final = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}
# Pods that run, in this order: the CPUs of the first are not in the pool of the second.
PODS: Final = (
    DemoPod(
        name="orders",
        qos=QosClass.LSR,
        kube_qos="guaranteed",
        asks="2 CPUs of its own; the scheduler chose 2 and 3",
        resources=pods.linux_resources(cpu_request=2000, cpu_limit=2000, memory_limit=4 * _GIB, oom_score_adj=-997),
        annotations={RESOURCE_STATUS: json.dumps({"cpuset": "2-3"})},
    ),
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
        annotations={EXTENDED_RESOURCES: json.dumps({"containers": {"main": {"requests": _BATCH, "limits": _BATCH}}})},
    ),
)


class Due(NamedTuple):
    """A value that must be there: as found without a hook server, with it, and after the NodeSLO was edited."""

    parameter: Parameter
    levels: tuple[Level, ...]
    asked: Value
    given: Value
    edited: Value


def _due(
    parameter: Parameter, levels: tuple[Level, ...], asked: Value, given: Value, edited: Value | None = None
) -> Due:
    return Due(parameter, levels, asked, given, given if edited is None else edited)


POD_VALUES: Final[Mapping[str, tuple[Due, ...]]] = MappingProxyType(
    {
        "orders": (
            _due(Parameter.CPU_QUOTA, _BOTH, 200_000, UNLIMITED),
            _due(Parameter.CPUSET_CPUS, _CONTAINER, CLEAR, "2-3"),
            _due(Parameter.CPU_BVT, _POD, 0, 2),
        ),
        "web": (
            _due(Parameter.CPUSET_CPUS, _CONTAINER, CLEAR, "0-1,4-7"),
            _due(Parameter.CPU_BVT, _POD, 0, 2, 1),
        ),
        "reports": (
            _due(Parameter.CPU_SHARES, _BOTH, 2, 1536),
            _due(Parameter.CPU_QUOTA, _BOTH, UNLIMITED, 150_000, UNLIMITED),
            _due(Parameter.MEMORY_LIMIT, _BOTH, UNLIMITED, 2 * _GIB),
            _due(Parameter.CPU_BVT, _POD, 0, -1),
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
    def nodeslo(self) -> Path:
        """The node's policy."""
        return self.folder / "nodeslo.yaml"

    @property
    def cgroups(self) -> Path:
        """What stands for /sys/fs/cgroup."""
        return self.folder / "cgroup"

    def prepare(self) -> None:
        """Directories and files that a node has."""
        (self.folder / "hookserver.d").mkdir(mode=0o755)
        boot = self.folder / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("0d3a8ae1-6f3c-4e5c-9d2b-3a7c1d9f0b42\n")
        system = self.folder / "sys/devices/system/cpu"
        system.mkdir(parents=True)
        (system / "online").write_text(f"{CPUS}\n")
        edit(self.nodeslo, BEFORE)

    def environment(self) -> dict[str, str]:
        """All paths of both programs, so that their command lines are as short as on a node."""
        folder = self.folder
        return {
            "INTERPOSE_LISTEN": str(self.cri),
            "INTERPOSE_RUNTIME_ENDPOINT": str(self.runtime),
            "INTERPOSE_ADMIN_LISTEN": str(self.relay_admin),
            "INTERPOSE_HOOKS_DIR": str(folder / "hookserver.d"),
            "INTERPOSE_HOOKSERVER_LISTEN": str(folder / "hooks.sock"),
            "INTERPOSE_HOOKSERVER_NODESLO": str(self.nodeslo),
            "INTERPOSE_HOOKSERVER_RUNTIME_ENDPOINT": str(self.cri),
            "INTERPOSE_HOOKSERVER_ADMIN_LISTEN": str(self.admin),
            "INTERPOSE_HOOKSERVER_HOOKS_DIR": str(folder / "hookserver.d"),
            "INTERPOSE_HOOKSERVER_STATE_DIR": str(folder / "state"),
            "INTERPOSE_HOOKSERVER_KUBELET_STATE_DIR": str(folder / "kubelet"),
            "INTERPOSE_HOOKSERVER_CGROUP_ROOT": str(self.cgroups),
            "INTERPOSE_HOOKSERVER_PROC_ROOT": str(folder / "proc"),
            "INTERPOSE_HOOKSERVER_SYS_ROOT": str(folder / "sys"),
        }


_OTHERS: Final = ("INTERPOSE_", "LISTEN_", "NOTIFY_", "WATCHDOG_")


def forget_settings() -> None:
    """Settings of the shell are for other relays."""
    for name in [name for name in os.environ if name.startswith(_OTHERS)]:
        del os.environ[name]
