"""What kubeconfig documents mean: the current context, its cluster and its user. Pure.

Unknown keys are ignored, as kubectl does; a key that would change our identity or whom we trust, and is not supported,
is refused. `Section` reads a mapping key by key, with the type the caller expects.

Invariant: no message shows a value, since it may be a secret.
"""

import base64
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from interpose.config.documents.yaml import TAG_NAMES, DocumentNode
from interpose.core.model.text import quoted
from interpose.errors import ConfigError
from interpose.kube.client.access import Access, ClientIdentity, ExecPlugin
from interpose.net.http.address import Proxy, Server, parse_proxy, parse_server, proxy_from
from interpose.net.http.tls import Pem

_TRUE: Final = ("true", "yes", "on")


class Section:
    """A group of keys of a file. `where` names the file, `label` the part of it, in every message."""

    def __init__(self, node: DocumentNode, *, where: str, folder: str, label: str = "") -> None:
        self._node = node
        self._where = where
        self._folder = folder
        self._label = label
        if node.tag != "map":
            self.fail("", f"expected a group of keys, found {TAG_NAMES[node.tag]}")

    def fail(self, key: str, text: str) -> NoReturn:
        """ConfigError that names file, line, part and key."""
        node = self._find(key) or self._node
        line = f" line {node.line}" if node.line else ""
        parts = [part for part in (self._label, key) if part]
        raise ConfigError(": ".join((f"{self._where}{line}", *parts, text)))

    def _find(self, key: str) -> DocumentNode | None:
        return next((node for name, node in self._node.entries if name == key and node.tag != "null"), None)

    def node(self, key: str) -> DocumentNode | None:
        """The value of a key, if it has one."""
        if sum(name == key for name, _node in self._node.entries) > 1:
            self.fail(key, "appears more than once")
        return self._find(key)

    def text(self, key: str) -> str:
        """A text; empty if there is none. What is found instead is not shown, it may be a secret."""
        node = self.node(key)
        if node is None:
            return ""
        if node.tag != "str":
            self.fail(key, f"expected text, found {TAG_NAMES[node.tag]}; quotes make it text")
        return node.text

    def needed(self, key: str) -> str:
        """A text that has to be there."""
        return self.text(key) or self.fail(key, "is missing")

    def flag(self, key: str) -> bool:
        """True or false; false if it is not there."""
        node = self.node(key)
        if node is None:
            return False
        if node.tag != "bool":
            self.fail(key, f"expected true or false, found {TAG_NAMES[node.tag]}")
        return node.text.lower() in _TRUE

    def path(self, key: str) -> str:
        """A file; a relative one is below the folder of the kubeconfig."""
        path = self.text(key)
        return posixpath.normpath(posixpath.join(self._folder, path)) if path else ""

    def command(self, key: str) -> str:
        """A program; one without a slash is looked for in PATH."""
        return self.path(key) if "/" in self.needed(key) else self.text(key)

    def pem(self, key: str, mark: str) -> Pem:
        """The file of a key, or the text of its sister `<key>-data`, which counts more."""
        data_key = f"{key}-data"
        data = "".join(self.text(data_key).split())
        if not data:
            return Pem(file=self.path(key))
        try:
            text = base64.b64decode(data, validate=True).decode()
        except ValueError:
            self.fail(data_key, "is not base64 of a PEM text")
        if mark not in text:
            self.fail(data_key, f"is base64 of something without {mark!r}")
        return Pem(text=text)

    def section(self, key: str) -> "Section | None":
        """A group of keys inside this one."""
        node = self.node(key)
        return self._inner(node, key) if node is not None else None

    def sections(self, key: str) -> "list[Section]":
        """A list of groups of keys."""
        return [self._inner(node, f"{key}[{index}]") for index, node in enumerate(self._items(key))]

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self._items(key)
        if any(item.tag != "str" for item in items):
            self.fail(key, "expected a list of texts; quotes make it text")
        return tuple(item.text for item in items)

    def called(self, label: str) -> "Section":
        """The same under another name in messages."""
        return Section(self._node, where=self._where, folder=self._folder, label=label)

    def _items(self, key: str) -> tuple[DocumentNode, ...]:
        node = self.node(key)
        if node is not None and node.tag != "list":
            self.fail(key, f"expected a list, found {TAG_NAMES[node.tag]}")
        return node.items if node is not None else ()

    def _inner(self, node: DocumentNode, key: str) -> "Section":
        label = f"{self._label}: {key}" if self._label else key
        return Section(node, where=self._where, folder=self._folder, label=label)


def plain(node: DocumentNode) -> Any:
    """A value as JSON has it."""
    if node.tag == "map":
        return {key: plain(value) for key, value in node.entries}
    if node.tag == "list":
        return [plain(item) for item in node.items]
    if node.tag == "bool":
        return node.text.lower() in _TRUE
    if node.tag == "null":
        return None
    if node.tag in ("int", "float"):
        try:
            return json.loads(node.text)
        except ValueError:
            return node.text  # a spelling of numbers that JSON does not have
    return node.text


EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# Where a cluster keeps what a credential program wants to know about it.
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_KEY: Final = "PRIVATE KEY-----"
# Ignoring one of them would make us somebody else.
_REFUSED: Final[Mapping[str, str]] = {
    "auth-provider": "was removed from Kubernetes, use exec instead",
    "as": "impersonation is not supported",
    "as-uid": "impersonation is not supported",
    "as-groups": "impersonation is not supported",
    "as-user-extra": "impersonation is not supported",
}


def read_access(files: Sequence[Section], source: str, env: Mapping[str, str], context: str = "") -> Access:
    """Who and where we are by these files; of what is in several of them the first counts."""
    name = context or next((found for file in files if (found := file.text("current-context"))), "")
    if not name:
        files[0].fail("current-context", "is missing, and no context is named")
    chosen = _entry(files, "contexts", "context", name)
    cluster = _entry(files, "clusters", "cluster", chosen.needed("cluster"))
    user_name = chosen.text("user")
    user = _entry(files, "users", "user", user_name) if user_name else None
    try:
        server = parse_server(cluster.needed("server"))
    except ValueError as error:
        cluster.fail("server", str(error))
    authorities = cluster.pem("certificate-authority", _CERTIFICATE)
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and authorities:
        cluster.fail("insecure-skip-tls-verify", "is true, so certificate-authority has no meaning: drop one of them")
    return Access(
        server=server,
        source=f"{source}, context {quoted(name)}",
        namespace=chosen.text("namespace") or "default",
        authorities=authorities,
        insecure=insecure,
        server_name=cluster.text("tls-server-name"),
        proxy=_proxy(cluster, server, env),
        user=_user(user, cluster, env) if user is not None else ClientIdentity(),
    )


def _entry(files: Sequence[Section], key: str, inner: str, name: str) -> Section:
    """The entry of a name in one of the lists: users, clusters, contexts."""
    entry = next((entry for file in files for entry in file.sections(key) if entry.text("name") == name), None)
    if entry is None:
        files[0].fail(key, f"there is no {inner} {quoted(name)}")
    return (entry.section(inner) or entry.fail(inner, "is missing")).called(f"{inner} {quoted(name)}")


def _proxy(cluster: Section, server: Server, env: Mapping[str, str]) -> Proxy | None:
    text = cluster.text("proxy-url")
    try:
        return parse_proxy(text) if text else proxy_from(env, server)
    except ValueError as error:
        if text:
            cluster.fail("proxy-url", str(error))
        raise ConfigError(str(error)) from None


def _user(user: Section, cluster: Section, env: Mapping[str, str]) -> ClientIdentity:
    for unsupported, why in _REFUSED.items():
        if user.node(unsupported) is not None:
            user.fail(unsupported, why)
    certificate = user.pem("client-certificate", _CERTIFICATE)
    key = user.pem("client-key", _KEY)
    if bool(certificate) != bool(key):
        user.fail("client-certificate", "a certificate and its key have to be given together")
    token, token_file = user.text("token"), user.path("tokenFile")
    name, password = user.text("username"), user.text("password")
    if name and (token or token_file):
        user.fail("username", "a name with a password and a token are given, only one of them can be used")
    if ":" in name or (password and not name):
        user.fail("username", "is missing or has a colon in it")
    plugin = user.section("exec")
    return ClientIdentity(
        token=token,
        token_file=token_file,
        name=name,
        password=password,
        certificate=certificate,
        key=key,
        plugin=_plugin(plugin, cluster, env) if plugin is not None else None,
    )


def _plugin(plugin: Section, cluster: Section, env: Mapping[str, str]) -> ExecPlugin:
    version = plugin.needed("apiVersion")
    if version not in EXEC_VERSIONS:
        plugin.fail("apiVersion", f"{quoted(version)} is not one of {', '.join(EXEC_VERSIONS)}")
    if plugin.text("interactiveMode") == "Always":
        plugin.fail("interactiveMode", "is Always, but there is no terminal to prompt on")
    added = {pair.needed("name"): pair.text("value") for pair in plugin.sections("env")}
    return ExecPlugin(
        api_version=version,
        command=plugin.command("command"),
        args=plugin.texts("args"),
        environment=tuple((dict(env) | added).items()),
        hint=plugin.text("installHint"),
        cluster=_cluster_info(cluster) if plugin.flag("provideClusterInfo") else "",
    )


def _cluster_info(cluster: Section) -> str:
    """The cluster for a credential program, as JSON."""
    info: dict[str, Any] = {
        name: text for name in ("server", "tls-server-name", "proxy-url") if (text := cluster.text(name))
    }
    if cluster.flag("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    authorities = cluster.pem("certificate-authority", _CERTIFICATE)
    if authorities.text:
        info["certificate-authority-data"] = base64.b64encode(authorities.text.encode()).decode()
    for extension in cluster.sections("extensions"):
        if extension.text("name") == _EXEC_EXTENSION and (node := extension.node("extension")) is not None:
            info["config"] = plain(node)
    return json.dumps(info)
