"""What a pod offers to the plugins of its network: ports, bandwidth, name servers, and who it is. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from interpose.core.model.quantity import parse_quantity
from interpose.node.runtime.network.types import NetworkError

_PROTOCOLS: Final = {0: "tcp", 1: "udp", 2: "sctp"}
_BURST: Final = (1 << 31) - 1
_BANDWIDTH: Final = (("ingress", "kubernetes.io/ingress-bandwidth"), ("egress", "kubernetes.io/egress-bandwidth"))
_LEAST: Final = 1_000
_MOST: Final = 10**15


def offered(config: Any) -> dict[str, Any]:
    """By name of the capability; what is empty is not offered to anyone."""
    return {
        "portMappings": _ports(config.port_mappings),
        "bandwidth": _bandwidth(config.annotations),
        "dns": _dns(config.dns_config),
    }


def arguments(sandbox_id: str, config: Any) -> str:
    """CNI_ARGS as runtimes of Kubernetes give them."""
    pod = config.metadata
    pairs = (
        ("IgnoreUnknown", "1"),
        ("K8S_POD_NAMESPACE", pod.namespace),
        ("K8S_POD_NAME", pod.name),
        ("K8S_POD_INFRA_CONTAINER_ID", sandbox_id),
        ("K8S_POD_UID", pod.uid),
    )
    for name, value in pairs:
        if ";" in value or "\0" in value:
            raise NetworkError(f"{name}: {value!r} cannot be told to a network plugin")
    return ";".join(f"{name}={value}" for name, value in pairs)


def _ports(mappings: Any) -> list[dict[str, Any]]:
    found = []
    for one in mappings:
        if one.host_port <= 0:
            continue
        entry = {"hostPort": one.host_port, "containerPort": one.container_port}
        entry["protocol"] = _PROTOCOLS.get(one.protocol, "tcp")
        if one.host_ip:
            entry["hostIP"] = one.host_ip
        found.append(entry)
    return found


def _bandwidth(annotations: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for direction, key in _BANDWIDTH:
        text = annotations.get(key)
        if text is None:
            continue
        try:
            rate = int(parse_quantity(text, negative=False))
        except ValueError as error:
            raise NetworkError(f"annotation {key}: {text!r}: {error}") from None
        if not _LEAST <= rate <= _MOST:
            raise NetworkError(f"annotation {key}: {text!r} is not between 1k and 1P bits per second")
        found |= {f"{direction}Rate": rate, f"{direction}Burst": _BURST}
    return found


def _dns(config: Any) -> dict[str, list[str]]:
    found = {"servers": config.servers, "searches": config.searches, "options": config.options}
    return {key: list(values) for key, values in found.items() if values}
