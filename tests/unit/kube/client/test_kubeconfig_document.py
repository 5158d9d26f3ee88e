"""What kubeconfig documents mean."""

import base64
import json
from typing import Any

import pytest

from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError
from interpose.kube.client.access import Access, ClientIdentity
from interpose.kube.client.kubeconfig_document import Section, read_access
from interpose.net.http.address import Proxy, parse_server
from interpose.net.http.tls import Pem

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nhidden\n-----END PRIVATE KEY-----\n"
SERVER: dict[str, Any] = {"server": "https://10.0.0.1:6443"}
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}


def b64(text: str) -> str:
    """As the data keys have it."""
    return base64.b64encode(text.encode()).decode()


def config(
    *, cluster: Any = None, user: Any = None, context: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A kubeconfig with one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"} | (context or {})}],
        "clusters": [{"name": "k", "cluster": SERVER if cluster is None else cluster}],
        "users": [{"name": "u", "user": {} if user is None else user}],
    } | more


def read(*documents: Any, context: str = "", env: dict[str, str] | None = None) -> Access:
    """The access of these documents."""
    files = [
        Section(parse_document(json.dumps(document), f"file f{number}"), where=f"file f{number}", folder=f"/d{number}")
        for number, document in enumerate(documents)
    ]
    return read_access(files, "kubeconfig x", env or {}, context)


def refused(*documents: Any, **options: Any) -> str:
    """Why they cannot be used."""
    with pytest.raises(ConfigError) as caught:
        read(*documents, **options)
    return str(caught.value)


def test_least() -> None:
    """A server is all that is needed; unknown keys are nobody's business."""
    assert read(config(extra=1, cluster=SERVER | {"extensions": []})) == Access(
        server=parse_server("https://10.0.0.1:6443"), source="kubeconfig x, context 'c'"
    )


def test_without_a_user() -> None:
    """A context may name none."""
    assert read(config(context={"user": ""})).user == ClientIdentity()


def test_cluster() -> None:
    """All that it may say."""
    cluster = SERVER | {
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    access = read(config(cluster=cluster, context={"namespace": "ns"}), env={"HTTPS_PROXY": "other:1"})
    assert access.authorities == Pem(file="/d0/ca.crt")
    assert access.server_name == "kubernetes"
    assert access.proxy == Proxy(host="proxy", port=3128)
    assert access.namespace == "ns"
    assert read(config(cluster=SERVER | {"insecure-skip-tls-verify": True})).insecure


def test_data_counts_more_than_files() -> None:
    """As with kubectl."""
    cluster = SERVER | {"certificate-authority": "ca.crt", "certificate-authority-data": b64(CERTIFICATE)}
    assert read(config(cluster=cluster)).authorities == Pem(text=CERTIFICATE)


def test_proxy_of_the_environment() -> None:
    """It counts where the cluster has none."""
    assert read(config(), env={"HTTPS_PROXY": "other:1"}).proxy == Proxy(host="other", port=1)


def test_users() -> None:
    """Tokens, files, names and certificates."""
    assert read(config(user={"token": "t", "tokenFile": "t"})).user == ClientIdentity(token="t", token_file="/d0/t")
    assert read(config(user={"username": "me", "password": "p"})).user == ClientIdentity(name="me", password="p")
    pair = {"client-certificate-data": b64(CERTIFICATE), "client-key": "/k"}
    assert read(config(user=pair)).user == ClientIdentity(certificate=Pem(text=CERTIFICATE), key=Pem(file="/k"))


def test_credential_program() -> None:
    """Its environment is ours and what is added; a path is relative to the file."""
    plugin = EXEC | {
        "command": "bin/get",
        "args": ["a"],
        "env": [{"name": "X", "value": "1"}, {"name": "HOME"}],
        "installHint": "get it",
    }
    found = read(config(user={"exec": plugin}), env={"HOME": "/root", "PATH": "/bin"}).user.plugin
    assert found is not None
    assert (found.command, found.args, found.hint) == ("/d0/bin/get", ("a",), "get it")
    assert dict(found.environment) == {"HOME": "", "PATH": "/bin", "X": "1"}
    assert found.cluster == ""


def test_credential_program_that_wants_to_know_the_cluster() -> None:
    """It is told what it may know, and what the file has for it."""
    cluster = SERVER | {
        "certificate-authority-data": b64(CERTIFICATE),
        "tls-server-name": "k",
        "extensions": [
            {"name": "other", "extension": {"x": 1}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": 7}},
        ],
    }
    found = read(config(cluster=cluster, user={"exec": EXEC | {"provideClusterInfo": True}})).user.plugin
    assert found is not None
    assert json.loads(found.cluster) == SERVER | {
        "certificate-authority-data": b64(CERTIFICATE),
        "tls-server-name": "k",
        "config": {"audience": 7},
    }
    cluster = SERVER | {"insecure-skip-tls-verify": True}
    found = read(config(cluster=cluster, user={"exec": EXEC | {"provideClusterInfo": True}})).user.plugin
    assert found is not None
    assert json.loads(found.cluster) == SERVER | {"insecure-skip-tls-verify": True}


def test_several_files() -> None:
    """Of what is in several of them the first counts; paths belong to their own file."""
    first = {"current-context": "c", "users": [{"name": "u", "user": {"tokenFile": "t"}}]}
    second = config(user={"token": "x"}, cluster=SERVER | {"certificate-authority": "ca.crt"})
    access = read(first, second | {"current-context": "other"})
    assert access.user == ClientIdentity(token_file="/d0/t")
    assert access.authorities == Pem(file="/d1/ca.crt")


def test_context_by_name() -> None:
    """Another one than the current one."""
    document = config()
    document["contexts"].append({"name": "d", "context": {"cluster": "k", "user": "u", "namespace": "dd"}})
    assert read(document, context="d").namespace == "dd"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "file f0 line 1: current-context: is missing, and no context is named"),
        (config(contexts=[]), "file f0 line 1: contexts: there is no context 'c'"),
        (config(contexts=[{"name": "c"}]), "file f0 line 1: contexts[0]: context: is missing"),
        (config(context={"cluster": None}), "file f0 line 1: context 'c': cluster: is missing"),
        (config(context={"cluster": "z"}), "file f0 line 1: clusters: there is no cluster 'z'"),
        (config(context={"user": "z"}), "file f0 line 1: users: there is no user 'z'"),
        (config(cluster={"x": 1}), "file f0 line 1: cluster 'k': server: is missing"),
        (
            config(cluster={"server": "k8s:6443"}),
            "file f0 line 1: cluster 'k': server: it is not an address such as https://HOST:PORT",
        ),
        (
            config(cluster=SERVER | {"insecure-skip-tls-verify": True, "certificate-authority": "x"}),
            (
                "file f0 line 1: cluster 'k': insecure-skip-tls-verify: is true, so certificate-authority has no "
                "meaning: drop one of them"
            ),
        ),
        (
            config(cluster=SERVER | {"proxy-url": "socks5://p"}),
            (
                "file f0 line 1: cluster 'k': proxy-url: a proxy of kind socks5:// is not supported, "
                "only http:// (with CONNECT)"
            ),
        ),
        (
            config(user={"auth-provider": {"name": "gcp"}}),
            "file f0 line 1: user 'u': auth-provider: was removed from Kubernetes, use exec instead",
        ),
        (
            config(user={"as": "root", "token": "hidden"}),
            "file f0 line 1: user 'u': as: impersonation is not supported",
        ),
        (
            config(user={"client-certificate": "x"}),
            "file f0 line 1: user 'u': client-certificate: a certificate and its key have to be given together",
        ),
        (
            config(user={"client-key-data": b64("hidden")}),
            "file f0 line 1: user 'u': client-key-data: is base64 of something without 'PRIVATE KEY-----'",
        ),
        (
            config(user={"token": "hidden", "username": "me"}),
            (
                "file f0 line 1: user 'u': username: a name with a password and a token are given, "
                "only one of them can be used"
            ),
        ),
        (config(user={"password": "hidden"}), "file f0 line 1: user 'u': username: is missing or has a colon in it"),
        (config(user={"username": "a:b"}), "file f0 line 1: user 'u': username: is missing or has a colon in it"),
        (
            config(user={"exec": EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            (
                "file f0 line 1: user 'u': exec: apiVersion: 'client.authentication.k8s.io/v1alpha1' is not one of "
                "client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1"
            ),
        ),
        (
            config(user={"exec": EXEC | {"interactiveMode": "Always"}}),
            "file f0 line 1: user 'u': exec: interactiveMode: is Always, but there is no terminal to prompt on",
        ),
        (
            config(user={"exec": {"apiVersion": EXEC["apiVersion"]}}),
            "file f0 line 1: user 'u': exec: command: is missing",
        ),
        (
            config(user={"exec": EXEC | {"env": [{"value": "hidden"}]}}),
            "file f0 line 1: user 'u': exec: env[0]: name: is missing",
        ),
    ],
)
def test_mistakes(document: Any, message: str) -> None:
    """Each is told with file, part and key, and without secrets."""
    assert refused(document) == message


def test_environment_with_a_bad_proxy() -> None:
    """It is the variable that is wrong, not the file."""
    assert refused(config(), env={"https_proxy": "socks5://x"}).startswith("variable https_proxy: a proxy of kind")
