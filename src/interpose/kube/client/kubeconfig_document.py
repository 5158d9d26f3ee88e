"""What kubeconfig documents mean: the context that counts, its cluster and its user. Pure.

Keys that are not ours to use are left alone, as kubectl does; what would change who we are or whom we trust, and is not
supported, is refused. Invariant: no message has a secret in it.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from interpose.core.model.text import quoted
from interpose.errors import ConfigError
from interpose.kube.client.access import Access, ExecPlugin, User
from interpose.kube.client.section import Section, plain
from interpose.net.http.address import Proxy, Server, parse_proxy, parse_server, proxy_from

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
        user=_user(user, cluster, env) if user is not None else User(),
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


def _user(user: Section, cluster: Section, env: Mapping[str, str]) -> User:
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
    return User(
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
