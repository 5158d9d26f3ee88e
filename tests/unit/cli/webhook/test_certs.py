"""`interpose webhook certs`: in a directory, and in a cluster."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.kube.client.api import MUTATING_WEBHOOKS, SECRETS
from interpose.kube.webhook.issue import Issued, examine
from tests.support.apiserver.background import Running, background
from tests.support.apiserver.server import ApiServer

NS = "kube-system"
IN_CLUSTER = ("--service", "hook", "--namespace", NS, "--secret", "tls", "--webhook-config", "interpose")
HOOK = {"name": "pods.example.org", "clientConfig": {"url": "https://localhost/"}, "sideEffects": "None"}


def certs(*arguments: str, kubeconfig: Path | None = None) -> Result:
    """Run the command."""
    access = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    return CliRunner().invoke(cli, ["webhook", "certs", *arguments, *access])


@pytest.fixture
def running() -> Iterator[Running]:
    """An API server that has a webhook configuration."""
    body = {"metadata": {"name": "interpose"}, "webhooks": [{**HOOK, "admissionReviewVersions": ["v1"]}]}
    with background(ApiServer()) as server:
        server.do(lambda api: api.put(MUTATING_WEBHOOKS, body))
        yield server


@pytest.fixture
def kubeconfig(running: Running, tmp_path: Path) -> Path:
    """How to reach it."""
    return running.do(lambda api: api.kubeconfig(tmp_path / "kubeconfig"))


def test_directory(tmp_path: Path) -> None:
    """Key and certificate that a server can load; a second run keeps them, --force does not."""
    line = ("--name", "localhost", "--name", "::1", "--dir", str(tmp_path / "tls"))
    first = certs(*line)
    assert first.exit_code == 0, first.output
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls/tls.crt", tmp_path / "tls/tls.key")
    made = (tmp_path / "tls/tls.crt").read_bytes()
    assert "the certificate stays" in certs(*line).output
    assert (tmp_path / "tls/tls.crt").read_bytes() == made
    assert "a new one was asked for" in certs(*line, "--force").output
    assert (tmp_path / "tls/tls.crt").read_bytes() != made


@pytest.mark.parametrize("name", ["0:0:0:0:0:0:0:1", "FE80::1", "Hook.example.org."])
def test_names_may_be_spelled_in_any_way(tmp_path: Path, name: str) -> None:
    """The second run knows the certificate of the first."""
    line = ("--name", name, "--dir", str(tmp_path))
    assert "a new certificate" in certs(*line).output
    assert "the certificate stays" in certs(*line).output


def test_secret_of_somebody_else(running: Running, kubeconfig: Path) -> None:
    """Nothing is changed, neither there nor in the configuration."""
    body = {"metadata": {"name": "tls", "namespace": NS}, "data": {"tls.crt": "", "tls.key": ""}}
    running.do(lambda api: api.put(SECRETS, body))
    result = certs(*IN_CLUSTER, kubeconfig=kubeconfig)
    assert result.exit_code == 1
    assert "Secret kube-system/tls: needs a certificate (there is none yet), and is not ours" in result.output
    assert not running.do(lambda api: [one for one in api.requests if one.method != "GET"])


def test_cluster(running: Running, kubeconfig: Path) -> None:
    """The Secret is for the names of the Service, and the configuration trusts what is in it."""
    result = certs(*IN_CLUSTER, kubeconfig=kubeconfig)
    assert result.exit_code == 0, result.output
    secret = running.do(lambda api: api.get(SECRETS, "tls", namespace=NS))
    data = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    facts = examine(Issued(authority=data["ca.crt"], certificate=data["tls.crt"], key=data["tls.key"]))
    assert facts.names == {f"hook.{NS}.svc", f"hook.{NS}.svc.cluster.local", f"hook.{NS}", "hook"}
    hooks = running.do(lambda api: api.get(MUTATING_WEBHOOKS, "interpose"))["webhooks"]
    assert base64.b64decode(hooks[0]["clientConfig"]["caBundle"]) == data["ca.crt"]
    assert "trusts it already" in certs(*IN_CLUSTER, kubeconfig=kubeconfig).output


def test_namespace_of_the_kubeconfig(running: Running, kubeconfig: Path) -> None:
    """Who names none means the one of the context."""
    result = certs("--service", "hook", "--secret", "tls", kubeconfig=kubeconfig)
    assert result.exit_code == 0, result.output
    assert running.do(lambda api: api.get(SECRETS, "tls", namespace="default"))


def test_dry_run(running: Running, kubeconfig: Path) -> None:
    """Says what it would do and writes nothing."""
    result = certs(*IN_CLUSTER, "--dry-run", kubeconfig=kubeconfig)
    assert "a new certificate" in result.output
    assert not running.do(lambda api: [one for one in api.requests if one.method != "GET"])


def test_what_the_server_says_no_to(running: Running, kubeconfig: Path) -> None:
    """A configuration that does not exist is named, and no Secret is left behind that nobody trusts."""
    result = certs(*IN_CLUSTER[:-1], "other", kubeconfig=kubeconfig)
    assert result.exit_code == 1
    assert "other" in result.output
    assert "404 NotFound" in result.output
    assert not running.do(lambda api: api.list(SECRETS))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--name", "a"), "either --secret NAME or --dir DIR"),
        (("--name", "a", "--secret", "s", "--dir", "d"), "either --secret NAME or --dir DIR"),
        (("--dir", "d"), "say what it is for"),
        (("--dir", "d", "--name", "not a name"), "'not a name' is not a DNS name and no address"),
        (("--dir", "d", "--name", "a", "--days", "5", "--renew-before", "5"), "must be less than --days 5"),
    ],
)
def test_wrong_usage(line: tuple[str, ...], said: str) -> None:
    """Exit code 2, and what to say instead."""
    result = certs(*line)
    assert result.exit_code == 2
    assert said in result.output


def test_missing_kubeconfig(tmp_path: Path) -> None:
    """A file that is not there is named."""
    result = certs(*IN_CLUSTER, kubeconfig=tmp_path / "none")
    assert result.exit_code == 78
    assert str(tmp_path / "none") in result.output
