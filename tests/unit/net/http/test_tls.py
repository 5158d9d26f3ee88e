"""TLS contexts from files and texts."""

import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from interpose.errors import ConfigError
from interpose.net.http.tls import Pem, make_context
from tests.support.net.certificates import Authority, Pair

NONE = Pem()


@pytest.fixture(scope="module")
def authority() -> Authority:
    """A certificate authority that clients trust."""
    return Authority()


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    """A certificate of ours."""
    return authority.issue(client=True)


def context(
    *, authorities: Pem = NONE, insecure: bool = False, certificate: Pem = NONE, key: Pem = NONE
) -> ssl.SSLContext:
    """With what is given."""
    return make_context(authorities=authorities, insecure=insecure, certificate=certificate, key=key)


def test_authorities(tmp_path: Path, authority: Authority) -> None:
    """Only those that are named are trusted."""
    (tmp_path / "ca.crt").write_text(authority.pem)
    for pem in (Pem(text=authority.pem), Pem(file=str(tmp_path / "ca.crt"))):
        made = context(authorities=pem)
        assert len(made.get_ca_certs()) == 1
        assert made.verify_mode == ssl.CERT_REQUIRED
        assert made.check_hostname


def test_insecure() -> None:
    """Nobody is checked if that is wanted."""
    made = context(insecure=True)
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_NONE, False)


def test_certificates(tmp_path: Path, pair: Pair) -> None:
    """As text, as files, as one file for both, and mixed."""
    both = tmp_path / "both.pem"
    both.write_text(pair.certificate + pair.key)
    file = Pem(file=str(both))
    for certificate, key in (
        (Pem(text=pair.certificate), Pem(text=pair.key)),
        (file, file),
        (file, Pem(text=pair.key)),
    ):
        context(certificate=certificate, key=key)


def test_authorities_that_are_none(tmp_path: Path) -> None:
    """The file is named."""
    bad = tmp_path / "ca.crt"
    bad.write_text("nothing")
    with pytest.raises(ConfigError, match=f"certificate authorities {bad}: cannot be used: no certificate"):
        context(authorities=Pem(file=str(bad)))
    with pytest.raises(ConfigError, match=f"certificate authorities {tmp_path}/x: cannot be read: No such file"):
        context(authorities=Pem(file=f"{tmp_path}/x"))
    with pytest.raises(ConfigError, match="certificate authorities of the kubeconfig: cannot be used"):
        context(authorities=Pem(text="-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"))


def test_certificates_that_are_none(tmp_path: Path, pair: Pair, authority: Authority) -> None:
    """What does not fit is told, and nobody is asked for a password."""
    other = authority.issue(client=True)
    with pytest.raises(ConfigError, match="certificate and key given as text: cannot be used: key values mismatch"):
        context(certificate=Pem(text=pair.certificate), key=Pem(text=other.key))
    missing = Pem(file=str(tmp_path / "x"))
    with pytest.raises(ConfigError, match=f"client certificate and key {tmp_path}/x: cannot be read: No such file"):
        context(certificate=missing, key=missing)


def test_key_with_a_password(pair: Pair) -> None:
    """It is refused instead of asking for it on the terminal."""
    key = serialization.load_pem_private_key(pair.key.encode(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hidden"),
    ).decode()
    with pytest.raises(ConfigError, match="the key has a password, which is not supported"):
        context(certificate=Pem(text=pair.certificate), key=Pem(text=locked))


def test_pipes(tmp_path: Path, pair: Pair) -> None:
    """Nobody may have to wait for what is in them."""
    os.mkfifo(tmp_path / "pipe")
    pipe = Pem(file=str(tmp_path / "pipe"))
    with pytest.raises(
        ConfigError, match=f"certificate authorities {pipe.file}: cannot be read: it is not a regular file"
    ):
        context(authorities=pipe)
    with pytest.raises(ConfigError, match=r"cannot be read: it is not a regular file"):
        context(certificate=Pem(text=pair.certificate), key=pipe)
