"""The configuration of a sandbox, as a kubelet makes it of a pod. No IO, no clock: the same pod gives the same message.

That matters: CreateContainer carries it a second time, made anew.
"""

from collections.abc import Iterator

from interpose.cri.messages import cri
from interpose.node.pods.cgroups.paths import cgroup_parent
from interpose.node.pods.cri_config.dns import kernel_hostname, pod_dns
from interpose.node.pods.cri_config.qos import sidecars
from interpose.node.pods.cri_config.resources import overhead_linux_resources, pod_linux_resources
from interpose.node.pods.cri_config.resources_message import to_message
from interpose.node.pods.cri_config.security_context import sandbox_security
from interpose.node.pods.labels import LOG_ROOT, log_directory, pod_labels
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSpec


def sandbox_config(pod: PodSpec, node: NodeFacts, attempt: int, *, log_root: str = LOG_ROOT) -> cri.PodSandboxConfig:
    """The configuration of a pod's sandbox; ValueError if the pod cannot have one on this node."""
    resolv = pod_dns(pod, node.resolv, node.cluster_dns, node.cluster_domain).resolv
    overhead, resources = pod_resources(pod, node)
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=pod.name, uid=pod.uid, namespace=pod.namespace, attempt=attempt),
        hostname=kernel_hostname(pod, node.cluster_domain),
        log_directory=log_directory(pod, log_root),
        dns_config=cri.DNSConfig(servers=resolv.servers, searches=resolv.searches, options=resolv.options),
        port_mappings=_port_mappings(pod),
        labels=pod_labels(pod),
        annotations=pod.annotations,
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent(pod, node.cgroup_driver, node.cgroup_root),
            security_context=sandbox_security(pod),
            sysctls=dict(pod.security.sysctls),
            overhead=overhead,
            resources=resources,
        ),
    )


def pod_resources(pod: PodSpec, node: NodeFacts) -> tuple[cri.LinuxContainerResources, cri.LinuxContainerResources]:
    """What the sandbox itself costs, and what the pod has without that."""
    return (
        to_message(overhead_linux_resources(pod, node.rules)),
        to_message(pod_linux_resources(pod, node.rules)),
    )


def _port_mappings(pod: PodSpec) -> list[cri.PortMapping]:
    """Every declared port of those that stay, whether the node has a port for it or not."""
    staying = (*sidecars(pod), *pod.containers)
    return [mapping for container in staying for mapping in _ports_of(container)]


def _ports_of(container: ContainerSpec) -> Iterator[cri.PortMapping]:
    seen: set[object] = set()
    for port in container.ports:
        name = port.name or (port.protocol, port.host_ip, port.container_port, port.host_port)
        if name not in seen:
            seen.add(name)
            yield cri.PortMapping(
                protocol=port.protocol,
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
