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
from typing import TYPE_CHECKING, Final

from interpose.errors import ConfigError
from interpose.net.http.address import Server, parse_server

if TYPE_CHECKING:
    from interpose.config.documents.yaml import DocumentNode

_HOSTS: Final[Mapping[str, str]] = {"docker.io": "registry-1.docker.io"}
_KEYS: Final = ("endpoints", "ca", "certificate", "key", "skip_verify")
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


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


def read_registries(document: "DocumentNode", where: str) -> Registries:
    """Read the settings file; ConfigError with all problems, each with line, key and value."""
    reader = _Reader(where)
    found = reader.read(document)
    if reader.problems:
        raise ConfigError(reader.problems)
    return Registries(endpoints=MappingProxyType(found))


class _Reader:
    def __init__(self, where: str) -> None:
        self._where = where
        self.problems: list[str] = []

    def _add_problem(self, node: "DocumentNode", key: str, problem: str) -> None:
        line = f" line {node.line}" if node.line is not None else ""
        self.problems.append(f"{self._where}{line}: {key}: {problem}")

    def read(self, document: "DocumentNode") -> dict[str, tuple[RegistryEndpoint, ...]]:
        found: dict[str, tuple[RegistryEndpoint, ...]] = {}
        if document.tag != "map":
            self._add_problem(document, "registries", "it is not a group of keys")
            return found
        for key, value in document.entries:
            if key != "registries":
                self._add_problem(value, key, "unknown key; known: registries")
            elif value.tag != "map":
                self._add_problem(value, key, "it is not a group of registries")
            else:
                for name, registry in value.entries:
                    if name in found:
                        self._add_problem(registry, f"registries.{name}", "it appears twice")
                    found[name] = self._registry(name, registry)
        return found

    def _registry(self, name: str, node: "DocumentNode") -> tuple[RegistryEndpoint, ...]:
        key = f"registries.{name}"
        if node.tag != "map":
            self._add_problem(node, key, f"it is not a group with some of {', '.join(_KEYS)}")
            return ()
        nodes: dict[str, DocumentNode] = {}
        for field_name, value in node.entries:
            if field_name not in _KEYS:
                self._add_problem(value, f"{key}.{field_name}", f"unknown key; known: {', '.join(_KEYS)}")
            nodes[field_name] = value
        texts = {field: self._text(nodes, key, field) for field in ("ca", "certificate", "key")}
        skip = self._switch(nodes, key)
        if bool(texts["certificate"]) != bool(texts["key"]):
            self._add_problem(node, key, "certificate and key go together")
        servers = self._servers(nodes, key, node, name)
        return tuple(
            RegistryEndpoint(
                server=server,
                ca=texts["ca"],
                certificate=texts["certificate"],
                key=texts["key"],
                skip_verify=skip,
            )
            for server in servers
        )

    def _text(self, nodes: "Mapping[str, DocumentNode]", key: str, name: str) -> str:
        node = nodes.get(name)
        if node is None:
            return ""
        if node.tag != "str" or not node.text:
            self._add_problem(node, f"{key}.{name}", "it is not a name of a file")
            return ""
        return node.text

    def _switch(self, nodes: "Mapping[str, DocumentNode]", key: str) -> bool:
        node = nodes.get("skip_verify")
        if node is None:
            return False
        if node.tag != "bool" or node.text.lower() not in _BOOLEANS:
            self._add_problem(node, f"{key}.skip_verify", f"{node.text!r} is neither true nor false")
            return False
        return _BOOLEANS[node.text.lower()]

    def _servers(self, nodes: "Mapping[str, DocumentNode]", key: str, whole: "DocumentNode", name: str) -> list[Server]:
        node = nodes.get("endpoints")
        if node is None:
            return [self._server(whole, key, f"https://{_HOSTS.get(name, name)}")]
        if node.tag != "list" or not node.items:
            self._add_problem(node, f"{key}.endpoints", "it is not a list of addresses such as https://HOST:PORT")
            return []
        return [self._server(item, f"{key}.endpoints[{at}]", item.text) for at, item in enumerate(node.items)]

    def _server(self, node: "DocumentNode", key: str, text: str) -> Server:
        try:
            return parse_server(text)
        except ValueError as error:
            self._add_problem(node, key, f"{text[:200]!r}: {error}")
            return Server(scheme="https", host="invalid", port=443)
