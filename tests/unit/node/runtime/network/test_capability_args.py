"""What a pod offers to its network."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.network.capability_args import capability_args, cni_args
from interpose.node.runtime.network.types import NetworkError


def _pod(**fields: Any) -> cri.PodSandboxConfig:
    return cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", namespace="ns", uid="u"), **fields)


def test_nothing_to_offer() -> None:
    """All is empty."""
    assert capability_args(_pod()) == {"portMappings": [], "bandwidth": {}, "dns": {}}


def test_ports_of_the_host() -> None:
    """Those that are mapped; an unknown protocol is TCP."""
    ports = [
        cri.PortMapping(container_port=80),
        cri.PortMapping(container_port=80, host_port=8080, host_ip="10.0.0.1"),
        cri.PortMapping(container_port=53, host_port=53, protocol=cri.Protocol.UDP),
        cri.PortMapping(container_port=9, host_port=9, protocol=9),  # type: ignore[arg-type]
    ]
    assert capability_args(_pod(port_mappings=ports))["portMappings"] == [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "10.0.0.1"},
        {"hostPort": 53, "containerPort": 53, "protocol": "udp"},
        {"hostPort": 9, "containerPort": 9, "protocol": "tcp"},
    ]


def test_bandwidth_by_annotation() -> None:
    """In bits per second."""
    pod = _pod(annotations={"kubernetes.io/ingress-bandwidth": "1M", "kubernetes.io/egress-bandwidth": "2k"})
    burst = 2**31 - 1
    expected = {"ingressRate": 10**6, "ingressBurst": burst, "egressRate": 2000, "egressBurst": burst}
    assert capability_args(pod)["bandwidth"] == expected


@pytest.mark.parametrize("value", ["fast", "1", "2P", "-1M"])
def test_bandwidth_that_is_none(value: str) -> None:
    """Annotation and value are named."""
    with pytest.raises(NetworkError, match=f"ingress-bandwidth: '{value}'"):
        capability_args(_pod(annotations={"kubernetes.io/ingress-bandwidth": value}))


def test_name_servers() -> None:
    """What there is of it."""
    config = cri.DNSConfig(servers=["10.0.0.10"], searches=["a", "b"])
    assert capability_args(_pod(dns_config=config))["dns"] == {"servers": ["10.0.0.10"], "searches": ["a", "b"]}


def test_who_it_is() -> None:
    """In the words of Kubernetes."""
    assert cni_args("s1", _pod()) == (
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=s1;K8S_POD_UID=u"
    )


def test_names_cannot_smuggle_arguments() -> None:
    """A semicolon would be one more."""
    with pytest.raises(NetworkError, match="K8S_POD_NAME"):
        cni_args("s1", cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="a;X=1")))
