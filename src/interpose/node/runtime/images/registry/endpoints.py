"""Endpoints of registries: addresses, mirrors, and trusted certificates. Pure.

A settings file may have them for some registries; the others are reached over HTTPS under their own name. Plain HTTP is
only used on this machine, or where a settings file has http://.

    registries:
      docker.io:
        endpoints: [https://mirror.example:5000, https://registry-1.docker.io]
        ca: /etc/ssl/mirror.pem
      10.0.0.5:5000:
        endpoints: [http://10.0.0.5:5000]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Items, NamedFields, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.text import quoted
from interpose.net.http.address import Server, parse_server

_HOSTS: Final[Mapping[str, str]] = {"docker.io": "registry-1.docker.io"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEndpoint:
    """An address of a registry, with its TLS settings. Files are names of PEM files, empty for none."""

    server: Server
    ca: str = ""
    certificate: str = ""
    key: str = ""
    skip_verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """Endpoints by the domain of references; they are tried in their order."""

    endpoints: Mapping[str, tuple[RegistryEndpoint, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, domain: str) -> tuple[RegistryEndpoint, ...]:
        """The endpoints of a registry, from the settings or by default."""
        return self.endpoints.get(domain) or _default_endpoints(domain)


def _default_endpoints(domain: str) -> tuple[RegistryEndpoint, ...]:
    secure = RegistryEndpoint(server=parse_server(f"https://{_HOSTS.get(domain, domain)}"))
    if not is_local(secure.server.host):
        return (secure,)
    plain = parse_server(f"http://{domain}")
    return (secure, RegistryEndpoint(server=plain))


def is_local(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Address:
    """An address such as https://HOST:PORT."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Server | None:
        if node.tag == "str":
            return _server(node.text, node, key, report)
        report.expected("an address such as https://HOST:PORT", "str", node, key)
        return None


def _server(text: str, node: DocumentNode, key: str, report: Report) -> Server | None:
    try:
        return parse_server(text)
    except ValueError as error:
        report.say(node, key, f"{quoted(text)}: {error}")
        return None


def _check_endpoints(servers: tuple[Server, ...]) -> tuple[Server, ...]:
    if not servers:
        raise ValueError("the list of addresses is empty")
    return servers


def _check_registry(values: dict[str, Any]) -> dict[str, Any]:
    if bool(values.get("certificate")) != bool(values.get("key")):
        raise ValueError("certificate and key go together")
    return values


_REGISTRIES: Final = NamedFields(
    FieldGroup(
        {
            "endpoints": Items(_Address(), _check_endpoints),
            "ca": Text(),
            "certificate": Text(),
            "key": Text(),
            "skip_verify": FlagField(),
        },
        _check_registry,
    )
)


@dataclass(frozen=True, slots=True)
class _RegistryMap:
    """Endpoints by the name of a registry; without addresses it is one under that name."""

    def read(self, node: DocumentNode, key: str, report: Report) -> dict[str, tuple[RegistryEndpoint, ...]]:
        found: dict[str, tuple[RegistryEndpoint, ...]] = {}
        lines = dict(node.entries)
        for name, values in (_REGISTRIES.read(node, key, report) or {}).items():
            if values is None:
                continue
            addresses = values.pop("endpoints", None)
            own = f"https://{_HOSTS.get(name, name)}"
            servers = addresses or (_server(own, lines[name], f"{key}.{name}", report),)
            found[name] = tuple(RegistryEndpoint(server=server, **values) for server in servers if server is not None)
        return found


_DOCUMENT: Final = FieldGroup({"registries": _RegistryMap()}, lambda values: values.get("registries", {}))


def read_registries(document: DocumentNode, where: str) -> Registries:
    """The settings file; ConfigError with all that is wrong in it, each with place, key and value."""
    report = Report(where)
    found = _DOCUMENT.read(document, "", report)
    report.settle()
    return Registries(endpoints=MappingProxyType(found))
