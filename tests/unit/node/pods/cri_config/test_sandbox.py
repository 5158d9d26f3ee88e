"""The configuration of a sandbox."""

from fractions import Fraction

import pytest

from interpose.cri.messages import cri
from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cri_config.dns import ResolvConf
from interpose.node.pods.cri_config.sandbox import pod_resources, sandbox_config
from interpose.node.pods.cri_config.security_context import sandbox_security
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import (
    ContainerSpec,
    PodSecurityContext,
    PodSpec,
    Port,
    ResourceRequirements,
    RestartPolicy,
)

NODE = NodeFacts(
    name="n", memory=1000, resolv=ResolvConf(servers=("1.1.1.1",), searches=("corp",), options=("rotate",))
)
CPU = ResourceRequirements(requests={"cpu": Fraction(1)}, limits={"cpu": Fraction(2), "memory": Fraction(100)})


def test_a_whole_one() -> None:
    """Every field, as a kubelet fills it."""
    container = ContainerSpec(name="c", image="i", resources=CPU, ports=(Port(container_port=80, host_port=8080),))
    pod = PodSpec(
        name="p",
        namespace="ns",
        uid="u-1",
        labels={"app": "x"},
        annotations={"note": "y"},
        containers=(container,),
        security=PodSecurityContext(sysctls=(("net.core.somaxconn", "1024"),)),
        overhead={"cpu": Fraction(1, 2), "memory": Fraction(7)},
    )
    assert sandbox_config(pod, NODE, 2) == cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="p", namespace="ns", uid="u-1", attempt=2),
        hostname="p",
        log_directory="/var/log/pods/ns_p_u-1",
        dns_config=cri.DNSConfig(servers=["1.1.1.1"], searches=["corp"], options=["rotate"]),
        port_mappings=[cri.PortMapping(protocol=cri.TCP, container_port=80, host_port=8080)],
        labels={
            "app": "x",
            "io.kubernetes.pod.name": "p",
            "io.kubernetes.pod.namespace": "ns",
            "io.kubernetes.pod.uid": "u-1",
        },
        annotations={"note": "y"},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent="/kubepods/burstable/podu-1",
            security_context=sandbox_security(pod),
            sysctls={"net.core.somaxconn": "1024"},
            overhead=cri.LinuxContainerResources(
                cpu_shares=512, cpu_period=100_000, cpu_quota=50_000, memory_limit_in_bytes=7
            ),
            resources=cri.LinuxContainerResources(
                cpu_shares=1024, cpu_period=100_000, cpu_quota=200_000, memory_limit_in_bytes=100
            ),
        ),
    )


def test_a_sysctl_of_a_manifest_goes_with_dots() -> None:
    """A runtime would not know it otherwise."""
    spec = "{containers: [{name: c, image: x}], securityContext: {sysctls: [{name: net/core/somaxconn, value: '1'}]}}"
    [pod] = read_pods(f"kind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n", "x")
    assert sandbox_config(pod, NODE, 0).linux.sysctls == {"net.core.somaxconn": "1"}


def test_it_is_the_same_each_time() -> None:
    """It goes to the runtime again with every container."""
    pod = PodSpec(name="p", uid="u", containers=(ContainerSpec(name="c", image="i"),))
    first = sandbox_config(pod, NODE, 0, log_root="/logs").SerializeToString(deterministic=True)
    assert sandbox_config(pod, NODE, 0, log_root="/logs").SerializeToString(deterministic=True) == first


def test_in_the_nodes_network_there_is_no_hostname() -> None:
    """It has the node's."""
    pod = PodSpec(name="p", uid="u", containers=(ContainerSpec(name="c", image="i"),), host_network=True, hostname="h")
    assert sandbox_config(pod, NODE, 0).hostname == ""


def test_the_other_driver_and_place_of_logs() -> None:
    """Both are settings."""
    node = NodeFacts(name="n", memory=1, cgroup_driver=Driver.SYSTEMD, cgroup_root="top")
    pod = PodSpec(name="p", uid="u", containers=(ContainerSpec(name="c", image="i"),))
    config = sandbox_config(pod, node, 0, log_root="/logs")
    assert config.log_directory == "/logs/default_p_u"
    assert config.linux.cgroup_parent.startswith("/top.slice/top-kubepods.slice/top-kubepods-besteffort.slice/")


def test_ports_of_those_that_stay() -> None:
    """Sidecars and regular containers; a name or a port that one repeats only once."""
    twice = (
        Port(container_port=1, name="a"),
        Port(container_port=2, name="a"),
        Port(container_port=3),
        Port(container_port=3),
        Port(container_port=3, protocol="UDP", host_ip="::1"),
    )
    pod = PodSpec(
        name="p",
        uid="u",
        containers=(
            ContainerSpec(name="c", image="i", ports=twice),
            ContainerSpec(name="d", image="i", ports=twice[:1]),
        ),
        init_containers=(
            ContainerSpec(name="i", image="i", ports=(Port(container_port=8),)),
            ContainerSpec(name="s", image="i", ports=(Port(container_port=9),), restart_policy=RestartPolicy.ALWAYS),
        ),
    )
    found = sandbox_config(pod, NODE, 0).port_mappings
    assert [(one.container_port, one.protocol, one.host_ip) for one in found] == [
        (9, cri.TCP, ""),
        (1, cri.TCP, ""),
        (3, cri.TCP, ""),
        (3, cri.UDP, "::1"),
        (1, cri.TCP, ""),
    ]


def test_what_the_pod_has_as_a_whole() -> None:
    """For those who are told when it changes."""
    pod = PodSpec(name="p", uid="u", containers=(ContainerSpec(name="c", image="i", resources=CPU),))
    overhead, resources = pod_resources(pod, NODE)
    assert (overhead.ByteSize(), resources.cpu_quota) == (0, 200_000)


def test_a_pod_that_cannot_have_one() -> None:
    """The reason is in the error."""
    pod = PodSpec(name="p" * 40, uid="u", containers=(), subdomain="s" * 30, hostname_as_fqdn=True)
    with pytest.raises(ValueError, match="setHostnameAsFQDN"):
        sandbox_config(pod, NODE, 0)
