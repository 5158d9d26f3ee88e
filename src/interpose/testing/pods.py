"""Requests as a kubelet would send them: pod and container configurations with its labels, annotations and cgroups.

Pure. The same arguments give the same message: the uid of a pod is derived from its namespace and name.
"""

import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

from interpose._pb import cri_pb2 as cri

BUSYBOX = "docker.io/library/busybox:1.36"
QosClass = Literal["guaranteed", "burstable", "besteffort"]
_PERIOD = 100_000


def pod_uid(name: str, namespace: str = "default") -> str:
    """A uid that looks like one of the API server and is the same on every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{namespace}"))


def cgroup_parent(uid: str, qos: QosClass = "burstable", *, systemd: bool = False) -> str:
    """The cgroup the kubelet makes for a pod; the QoS class is visible nowhere else in CRI."""
    if systemd:
        prefix = "kubepods" if qos == "guaranteed" else f"kubepods-{qos}"
        middle = "" if qos == "guaranteed" else f"/{prefix}.slice"
        return f"/kubepods.slice{middle}/{prefix}-pod{uid.replace('-', '_')}.slice"
    return f"/kubepods/pod{uid}" if qos == "guaranteed" else f"/kubepods/{qos}/pod{uid}"


def pod_config(
    name: str,
    namespace: str = "default",
    *,
    uid: str | None = None,
    attempt: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    qos: QosClass = "burstable",
    host_network: bool = False,
    systemd: bool = False,
) -> cri.PodSandboxConfig:
    """The configuration the kubelet sends with RunPodSandbox, and again with each CreateContainer."""
    uid = pod_uid(name, namespace) if uid is None else uid
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, namespace=namespace, uid=uid, attempt=attempt),
        hostname="" if host_network else name[:63],
        log_directory=f"/var/log/pods/{namespace}_{name}_{uid}",
        dns_config=cri.DNSConfig(servers=["10.96.0.10"], searches=[f"{namespace}.svc.cluster.local"]),
        labels={**(labels or {}), **_pod_labels(name, namespace, uid)},
        annotations=annotations or {},
    )
    config.linux.cgroup_parent = cgroup_parent(uid, qos, systemd=systemd)
    config.linux.security_context.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    options = config.linux.security_context.namespace_options
    options.network = cri.NODE if host_network else cri.POD
    options.pid = cri.CONTAINER
    return config


def container_config(
    pod: cri.PodSandboxConfig,
    name: str = "app",
    *,
    image: str = BUSYBOX,
    attempt: int = 0,
    command: Sequence[str] = ("sleep", "3600"),
    args: Sequence[str] = (),
    envs: Mapping[str, str | bytes] | None = None,
    resources: cri.LinuxContainerResources | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> cri.ContainerConfig:
    """The configuration the kubelet sends with CreateContainer. Pod annotations are not in it; pod labels neither."""
    meta = pod.metadata
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=name, attempt=attempt),
        image=cri.ImageSpec(image=image, user_specified_image=image),
        command=command,
        args=args,
        envs=[
            cri.KeyValue(key=key, value=value if isinstance(value, bytes) else value.encode())
            for key, value in (envs or {}).items()
        ],
        labels={
            **(labels or {}),
            "io.kubernetes.container.name": name,
            **_pod_labels(meta.name, meta.namespace, meta.uid),
        },
        annotations={**(annotations or {}), **_container_annotations(name, image, attempt)},
        log_path=f"{name}/{attempt}.log",
    )
    config.mounts.add(
        container_path="/etc/hosts", host_path=f"/var/lib/kubelet/pods/{meta.uid}/etc-hosts", selinux_relabel=True
    )
    config.linux.resources.CopyFrom(linux_resources() if resources is None else resources)
    config.linux.security_context.namespace_options.CopyFrom(pod.linux.security_context.namespace_options)
    return config


def linux_resources(
    *, cpu_request: int = 100, cpu_limit: int = 0, memory_limit: int = 0, oom_score_adj: int = 999
) -> cri.LinuxContainerResources:
    """Resources by the kubelet's arithmetic, from thousandths of a CPU and bytes; 0 means no request or no limit."""
    request = cpu_request or cpu_limit
    return cri.LinuxContainerResources(
        cpu_period=_PERIOD,
        cpu_quota=max(cpu_limit * _PERIOD // 1000, 1000) if cpu_limit else 0,
        cpu_shares=min(max(request * 1024 // 1000, 2), 262144),
        memory_limit_in_bytes=memory_limit,
        oom_score_adj=oom_score_adj,
    )


def run_request(pod: cri.PodSandboxConfig, runtime_handler: str = "") -> cri.RunPodSandboxRequest:
    """RunPodSandbox for this pod."""
    return cri.RunPodSandboxRequest(config=pod, runtime_handler=runtime_handler)


def create_request(
    sandbox_id: str, pod: cri.PodSandboxConfig, container: cri.ContainerConfig
) -> cri.CreateContainerRequest:
    """CreateContainer with the pod's configuration beside the container's, as the kubelet repeats it."""
    return cri.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=container, sandbox_config=pod)


def _pod_labels(name: str, namespace: str, uid: str) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": name,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.uid": uid,
    }


def _container_annotations(name: str, image: str, attempt: int) -> dict[str, str]:
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    return {
        "io.kubernetes.container.hash": f"{zlib.crc32(f'{name} {image}'.encode()):x}",
        "io.kubernetes.container.ports": json.dumps(ports, separators=(",", ":")),
        "io.kubernetes.container.restartCount": str(attempt),
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "30",
    }
