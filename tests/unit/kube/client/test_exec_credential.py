"""What a credential program prints."""

import json
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.kube.client.exec_credential import ExecCredential, read_credential

V1 = "client.authentication.k8s.io/v1"


def credential(api_version: str = V1, kind: str = "ExecCredential", **status: Any) -> bytes:
    """What a program prints."""
    return json.dumps({"kind": kind, "apiVersion": api_version, "status": status}).encode()


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"token": "t"}, ExecCredential(token="t")),
        ({"token": "t", "clientKeyData": None}, ExecCredential(token="t")),
        (
            {"clientCertificateData": "c", "clientKeyData": "k", "expirationTimestamp": "1970-01-01T00:01:00Z"},
            ExecCredential(certificate="c", key="k", expires=60.0),
        ),
        (
            {"token": "t", "expirationTimestamp": "1970-01-01T02:00:00.5+02:00"},
            ExecCredential(token="t", expires=0.5),
        ),
        ({"token": "t", "expirationTimestamp": "1970-01-01T00:00:07"}, ExecCredential(token="t", expires=7.0)),
    ],
)
def test_credentials(status: dict[str, Any], found: ExecCredential) -> None:
    """A token, a certificate, and when they end."""
    assert read_credential(credential(**status), V1, "x") == found


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (b"hidden", "x: did not print an ExecCredential in JSON"),
        (b"[]", "x: did not print an ExecCredential in JSON"),
        (credential(kind="Secret", token="hidden"), "x: did not print an ExecCredential in JSON"),
        (
            credential("client.authentication.k8s.io/v1beta1", token="hidden"),
            f"x: printed apiVersion 'client.authentication.k8s.io/v1beta1', '{V1}' was asked for",
        ),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1}).encode(), "x: printed no status"),
        (credential(), "x: printed neither a token nor a certificate"),
        (
            credential(clientKeyData="hidden"),
            "x: printed a certificate without a key, or a key without a certificate",
        ),
        (credential(token=["hidden"]), "x: status.token is not text"),
        (
            credential(token="hidden", expirationTimestamp="soon"),
            "x: status.expirationTimestamp: 'soon' is not a time",
        ),
    ],
)
def test_credentials_that_are_none(printed: bytes, message: str) -> None:
    """What is wrong is said, what was printed is not."""
    with pytest.raises(ConfigError) as caught:
        read_credential(printed, V1, "x")
    assert str(caught.value) == message


def test_credentials_are_not_shown() -> None:
    """Their text can be logged."""
    assert "hidden" not in repr(ExecCredential(token="hidden", certificate="hidden", key="hidden"))
