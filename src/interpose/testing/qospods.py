"""Pods of co-location for a fake node: labels, annotations and resources as Koordinator's webhook and scheduler write.

Each builder adds a running pod and returns its sandbox, whose `containers` are ids. CPU is in thousandths, memory in
bytes; 0 is no request or no limit.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import MAX_SHARES
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES, RESOURCE_STATUS
from interpose.testing import pods
from interpose.testing.fakenode import FakeNode
from interpose.testing.runtime.state import FakeSandbox

GIB: Final = 1 << 30
_OOM_BEST_EFFORT: Final = 1000
_OOM_GUARANTEED: Final = -997


def be_pod(
    node: FakeNode,
    name: str,
    *,
    batch_cpu: int = 1000,
    batch_memory: int = GIB,
    limits: bool = True,
    containers: Sequence[str] = ("main",),
    **more: Any,
) -> FakeSandbox:
    """A BE pod. Each container asks for this much; Kubernetes itself sees a pod that asks for nothing."""
    amounts = {"kubernetes.io/batch-cpu": str(batch_cpu), "kubernetes.io/batch-memory": str(batch_memory)}
    extended = {"requests": amounts, "limits": amounts} if limits else {"requests": amounts}
    annotation = {EXTENDED_RESOURCES: json.dumps({"containers": dict.fromkeys(containers, extended)})}
    resources = cri.LinuxContainerResources(cpu_period=100_000, cpu_shares=2, oom_score_adj=_OOM_BEST_EFFORT)
    return _add(node, name, QosClass.BE, "besteffort", dict.fromkeys(containers, resources), annotation, **more)


def ls_pod(
    node: FakeNode,
    name: str,
    *,
    cpu_request: int = 500,
    cpu_limit: int = 1000,
    memory_limit: int = GIB,
    containers: Sequence[str] = ("main",),
    **more: Any,
) -> FakeSandbox:
    """An LS pod, Burstable."""
    resources = pods.linux_resources(cpu_request=cpu_request, cpu_limit=cpu_limit, memory_limit=memory_limit)
    return _add(node, name, QosClass.LS, "burstable", dict.fromkeys(containers, resources), {}, **more)


def lsr_pod(
    node: FakeNode, name: str, *, cpuset: str = "2-3", memory_limit: int = 2 * GIB, numa_node: int = 0, **more: Any
) -> FakeSandbox:
    """An LSR pod, Guaranteed, with CPUs of its own."""
    cpus = len(CpuSet.parse(cpuset))
    status = {"cpuset": cpuset, "numaNodeResources": [{"node": numa_node, "resources": {"cpu": str(cpus)}}]}
    resources = pods.linux_resources(
        cpu_request=1000 * cpus, cpu_limit=1000 * cpus, memory_limit=memory_limit, oom_score_adj=_OOM_GUARANTEED
    )
    return _add(
        node, name, QosClass.LSR, "guaranteed", {"main": resources}, {RESOURCE_STATUS: json.dumps(status)}, **more
    )


def populate(node: FakeNode, count: int, *, exclusive: int = 16) -> list[FakeSandbox]:
    """So many pods: half BE, the others LS, some of these with CPUs of their own, two each, while `exclusive` last."""
    made = []
    for number in range(count):
        name = f"load-{number:04}"
        taken = number // 10 * 2
        if number % 2:
            made.append(be_pod(node, name, batch_cpu=500 + number, namespace="batch"))
        elif number % 10 == 0 and taken + 2 <= exclusive:
            made.append(lsr_pod(node, name, cpuset=f"{taken}-{taken + 1}", namespace="production"))
        else:
            made.append(ls_pod(node, name, cpu_request=250 + number, namespace="production"))
    return made


def _add(
    node: FakeNode,
    name: str,
    qos: QosClass,
    kube_qos: pods.QosClass,
    containers: Mapping[str, cri.LinuxContainerResources],
    annotation: Mapping[str, str],
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> FakeSandbox:
    config = pods.pod_config(
        name,
        namespace,
        labels={QOS_LABEL: str(qos), **(labels or {})},
        annotations={**annotation, **(annotations or {})},
        qos=kube_qos,
        systemd=node.systemd,
    )
    config.linux.resources.CopyFrom(_of_the_pod(list(containers.values())))
    return node.add(
        config, [pods.container_config(config, name, resources=resources) for name, resources in containers.items()]
    )


def _of_the_pod(each: Sequence[cri.LinuxContainerResources]) -> cri.LinuxContainerResources:
    """Sums, as the kubelet has them: a limit only if all containers have one."""
    quotas, limits = [part.cpu_quota for part in each], [part.memory_limit_in_bytes for part in each]
    return cri.LinuxContainerResources(
        cpu_period=100_000,
        cpu_shares=min(sum(part.cpu_shares for part in each), MAX_SHARES),
        cpu_quota=sum(quotas) if all(quotas) else 0,
        memory_limit_in_bytes=sum(limits) if all(limits) else 0,
    )
