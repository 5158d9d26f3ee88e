"""Runtime capabilities and CNI_ARGS of a pod: ports, bandwidth, name servers, identity. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from interpose.core.model.quantity import parse_quantity
from interpose.node.runtime.network.types import NetworkError

_PROTOCOLS: Final = {0: "tcp", 1: "udp", 2: "sctp"}
_BURST: Final = (1 << 31) - 1
_BANDWIDTH: Final = (("ingress", "kubernetes.io/ingress-bandwidth"), ("egress", "kubernetes.io/egress-bandwidth"))
_MIN_RATE: Final = 1_000
_MAX_RATE: Final = 10**15


def capability_args(config: Any) -> dict[str, Any]:
    """Capability arguments by name; empty ones are passed to no plugin."""
    return {
        "portMappings": _ports(config.port_mappings),
        "bandwidth": _bandwidth(config.annotations),
        "dns": _dns(config.dns_config),
    }


def cni_args(sandbox_id: str, config: Any) -> str:
    """CNI_ARGS with the keys of Kubernetes runtimes."""
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
    for mapping in mappings:
        if mapping.host_port <= 0:
            continue
        entry = {"hostPort": mapping.host_port, "containerPort": mapping.container_port}
        entry["protocol"] = _PROTOCOLS.get(mapping.protocol, "tcp")
        if mapping.host_ip:
            entry["hostIP"] = mapping.host_ip
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
        if not _MIN_RATE <= rate <= _MAX_RATE:
            raise NetworkError(f"annotation {key}: {text!r} is not between 1k and 1P bits per second")
        found |= {f"{direction}Rate": rate, f"{direction}Burst": _BURST}
    return found


def _dns(config: Any) -> dict[str, list[str]]:
    found = {"servers": config.servers, "searches": config.searches, "options": config.options}
    return {key: list(values) for key, values in found.items() if values}
