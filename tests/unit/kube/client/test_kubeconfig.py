"""Finding out where the API server is."""

from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.kube.client.access import ClientIdentity
from interpose.kube.client.kubeconfig import find_access
from interpose.net.http.tls import Pem

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def write(path: Path, server: str = "https://a:1", context: str = "c") -> str:
    """A small kubeconfig."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"""
current-context: {context}
contexts: [{{name: {context}, context: {{cluster: {context}, user: u}}}}]
clusters: [{{name: {context}, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{tokenFile: token}}}}]
"""
    )
    return str(path)


def pod(root: Path, namespace: str | None = "kube-system\n") -> Path:
    """The files of a pod."""
    folder = root / "var/run/secrets/kubernetes.io/serviceaccount"
    folder.mkdir(parents=True)
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("c")
    if namespace is not None:
        (folder / "namespace").write_text(namespace)
    return folder


def test_file(tmp_path: Path) -> None:
    """Whatever its name is; files it names are next to it."""
    access = find_access(write(tmp_path / "kubelet.conf"), POD)
    assert str(access.server) == "https://a:1"
    assert access.user == ClientIdentity(token_file=str(tmp_path / "token"))
    assert access.source == f"kubeconfig {tmp_path}/kubelet.conf, context 'c'"


def test_relative_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are found from wherever we are later."""
    write(tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    assert find_access("config", {}).user.token_file == str(tmp_path / "token")


def test_file_in_json(tmp_path: Path) -> None:
    """JSON is YAML, whatever the file is called."""
    (tmp_path / "config").write_text(
        '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],'
        ' "clusters": [{"name": "k", "cluster": {"server": "http://localhost:8080"}}]}'
    )
    assert str(find_access(str(tmp_path / "config"), {}).server) == "http://localhost:8080"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a: [", "is not valid YAML"),
        ("[]", "expected a group of keys"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    """The file is named."""
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        find_access(str(file), {})
    assert str(caught.value).startswith(f"file {file}")
    assert message in str(caught.value)


def test_file_that_is_missing(tmp_path: Path) -> None:
    """A named file has to be there."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        find_access(str(tmp_path / "x"), POD)


def test_pod(tmp_path: Path) -> None:
    """Address from the environment, the rest from files."""
    folder = pod(tmp_path)
    access = find_access("", POD, root=str(tmp_path))
    assert str(access.server) == "https://10.96.0.1:443"
    assert access.authorities == Pem(file=str(folder / "ca.crt"))
    assert access.user == ClientIdentity(token_file=str(folder / "token"))
    assert access.namespace == "kube-system"
    assert access.source == "service account of the pod"


def test_pod_without_a_namespace(tmp_path: Path) -> None:
    """Then it is the one called default."""
    pod(tmp_path, namespace=None)
    assert find_access("", POD, root=str(tmp_path)).namespace == "default"


def test_pod_with_ipv6(tmp_path: Path) -> None:
    """Some environments have brackets."""
    pod(tmp_path)
    env = POD | {"KUBERNETES_SERVICE_HOST": "[fd00::1]", "HTTPS_PROXY": "p:1", "NO_PROXY": "fd00::/8"}
    access = find_access("", env, root=str(tmp_path))
    assert str(access.server) == "https://[fd00::1]:443"
    assert access.proxy is None


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "this is not a pod of a cluster .* name a kubeconfig file"),
        ({"KUBERNETES_SERVICE_HOST": "a"}, "this is not a pod"),
        (POD | {"KUBERNETES_SERVICE_PORT": "tcp://x"}, "variable KUBERNETES_SERVICE_PORT: 'tcp://x' is not a port"),
        (POD | {"KUBERNETES_SERVICE_PORT": "99999"}, "is not a port"),
        (POD | {"HTTPS_PROXY": "socks5://x"}, "variable HTTPS_PROXY: a proxy of kind socks5"),
    ],
)
def test_pods_that_are_none(tmp_path: Path, env: dict[str, str], message: str) -> None:
    """What is missing is named, and what to do."""
    pod(tmp_path)
    with pytest.raises(ConfigError, match=message):
        find_access("", env, root=str(tmp_path))


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_pod_without_a_service_account(tmp_path: Path, name: str) -> None:
    """The file is named."""
    folder = pod(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"file {folder}/{name}: is not there: the pod has no service account"):
        find_access("", POD, root=str(tmp_path))


def test_default_rules(tmp_path: Path) -> None:
    """$KUBECONFIG, then ~/.kube/config, then the pod; without them only the pod."""
    pod(tmp_path)
    home = write(tmp_path / ".kube/config", "https://home:1")
    one, two = write(tmp_path / "one", "https://one:1"), write(tmp_path / "two", "https://two:1", "d")
    env = POD | {"HOME": str(tmp_path)}

    def found(env: dict[str, str], *, default_rules: bool = True) -> str:
        return str(find_access("", env, default_rules=default_rules, root=str(tmp_path)).server)

    assert found(env | {"KUBECONFIG": f"{tmp_path}/missing::{one}:{two}"}) == "https://one:1"
    assert find_access("", env | {"KUBECONFIG": f"{one}:{two}"}, default_rules=True, context="d").server.host == "two"
    assert found(env) == "https://home:1"
    assert found(env, default_rules=False) == "https://10.96.0.1:443"
    Path(home).unlink()
    assert found(env) == "https://10.96.0.1:443"
    assert found(POD) == "https://10.96.0.1:443"


def test_default_rules_with_files_that_are_missing(tmp_path: Path) -> None:
    """A variable that names nothing is a mistake, not a reason to go elsewhere."""
    with pytest.raises(ConfigError, match=f"file {tmp_path}/missing: cannot be read"):
        find_access("", POD | {"KUBECONFIG": f"{tmp_path}/missing"}, default_rules=True)
