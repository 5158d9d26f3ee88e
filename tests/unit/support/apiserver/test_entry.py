"""Files for clients."""

import json
from pathlib import Path

from tests.support.apiserver.entry import write_kubeconfig, write_service_account
from tests.support.net.certificates import Pair


def test_a_kubeconfig_with_a_token(tmp_path: Path) -> None:
    """For nobody else to read."""
    path = write_kubeconfig(tmp_path / "config", "http://x", "", token="secret")
    config = json.loads(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert config["clusters"][0]["cluster"] == {"server": "http://x"}
    assert config["users"][0]["user"] == {"token": "secret"}
    assert "namespace" not in config["contexts"][0]["context"]


def test_a_kubeconfig_with_a_certificate(tmp_path: Path) -> None:
    """Everything is in the file itself."""
    pair = Pair(certificate="cert", key="key")
    path = write_kubeconfig(tmp_path / "config", "https://x", "ca", pair=pair, namespace="d")
    config = json.loads(path.read_text())
    assert config["users"][0]["user"] == {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}
    assert config["clusters"][0]["cluster"]["certificate-authority-data"] == "Y2E="
    assert config["contexts"][0]["context"]["namespace"] == "d"


def test_an_account_of_a_pod(tmp_path: Path) -> None:
    """Three files and two variables."""
    env = write_service_account(tmp_path / "account", ("127.0.0.1", 6443), "ca", token="secret", namespace="d")
    assert env == {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    read = {path.name: path.read_text() for path in (tmp_path / "account").iterdir()}
    assert read == {"token": "secret", "ca.crt": "ca", "namespace": "d"}
