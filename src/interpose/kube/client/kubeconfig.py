"""Finds out where the API server is and who we are: a kubeconfig file, or what the kubelet gives to every pod."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from interpose.config.documents.yaml import parse_document, read_text
from interpose.errors import ConfigError
from interpose.kube.client.access import Access, ClientIdentity
from interpose.kube.client.kubeconfig_document import Section, read_access
from interpose.net.http.address import Server, proxy_from
from interpose.net.http.tls import Pem

# People keep dozens of clusters with their certificates in one file.
_MAX_FILE: Final = 8 << 20
_SERVICE_ACCOUNT: Final = "var/run/secrets/kubernetes.io/serviceaccount"
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def find_access(
    kubeconfig: str, env: Mapping[str, str], *, default_rules: bool = False, context: str = "", root: str = "/"
) -> Access:
    """By a kubeconfig file; without one ("") by what a pod has. ConfigError says what is wrong, with file and key.

    With `default_rules` and no file, $KUBECONFIG and ~/.kube/config come first, as with kubectl. `root` is where the
    files of a pod are looked for.
    """
    if kubeconfig:
        return _from_files([kubeconfig], env, context)
    if default_rules and (files := _default_files(env)):
        return _from_files(files, env, context)
    return _from_pod(env, Path(root) / _SERVICE_ACCOUNT)


def _from_files(paths: Sequence[str], env: Mapping[str, str], context: str) -> Access:
    sections = []
    for path in paths:
        where = f"file {path}"
        folder = str(Path(path).absolute().parent)
        sections.append(Section(parse_document(read_text(path, _MAX_FILE), where), where=where, folder=folder))
    return read_access(sections, f"kubeconfig {':'.join(paths)}", env, context)


def _default_files(env: Mapping[str, str]) -> list[str]:
    """Those that are there; $KUBECONFIG that names none of them is a mistake, and told by the first."""
    named = [path for path in env.get("KUBECONFIG", "").split(":") if path]
    if named:
        return [path for path in named if Path(path).exists()] or named[:1]
    home = env.get("HOME", "")
    path = Path(home) / ".kube/config"
    return [str(path)] if home and path.exists() else []


def _from_pod(env: Mapping[str, str], folder: Path) -> Access:
    host, port = env.get(_HOST, ""), env.get(_PORT, "")
    if not host or not port:
        raise ConfigError(f"this is not a pod of a cluster ({_HOST} and {_PORT} are not set): name a kubeconfig file")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"variable {_PORT}: {port!r} is not a port")
    server = Server(scheme="https", host=host.strip("[]"), port=int(port))
    token, authorities = folder / "token", folder / "ca.crt"
    for path in (token, authorities):
        if not path.exists():
            raise ConfigError(
                f"file {path}: is not there: the pod has no service account (automountServiceAccountToken), "
                "or name a kubeconfig file"
            )
    try:
        proxy = proxy_from(env, server)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Access(
        server=server,
        source="service account of the pod",
        namespace=_namespace(folder / "namespace"),
        authorities=Pem(file=str(authorities)),
        proxy=proxy,
        user=ClientIdentity(token_file=str(token)),
    )


def _namespace(path: Path) -> str:
    return (read_text(str(path), 1024).strip() if path.exists() else "") or "default"
