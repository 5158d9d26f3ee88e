"""Certificates for tests: an authority of one's own, pairs it signs, and files as people and kubelets lay them down.

Needs `cryptography`. Keys are of the fast kind (P-256) unless RSA is asked for; nothing here is fit for anything else
than tests.
"""

import datetime as dt
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOCAL = ("localhost", "127.0.0.1", "::1")
CERTIFICATE = "tls.crt"
KEY = "tls.key"

# Python insists on it from 3.13 on.
_SIGNS = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
_CRITICAL = (x509.BasicConstraints, x509.KeyUsage)

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, as PEM text."""

    certificate: str
    key: str


class Authority:
    """Signs certificates that clients who trust `pem` accept."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        extensions = (x509.BasicConstraints(True, 0), _SIGNS)
        self.pem = _text(self._sign(self._name, self._key, *_period(None, None), *extensions))

    def issue(
        self,
        *names: str,
        common_name: str = "",
        client: bool = False,
        not_before: dt.datetime | None = None,
        not_after: dt.datetime | None = None,
        rsa: bool = False,
    ) -> Pair:
        """A new pair for these DNS names and addresses, the local ones if none are given."""
        key = _rsa_key() if rsa else ec.generate_private_key(ec.SECP256R1())
        names = names or LOCAL
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        certificate = self._sign(
            _named(common_name or names[0]),
            key,
            *_period(not_before, not_after),
            x509.SubjectAlternativeName([_general(name) for name in names]),
            x509.ExtendedKeyUsage([purpose]),
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(certificate=_text(certificate), key=private.decode())

    def _sign(
        self,
        name: x509.Name,
        key: _Key,
        not_before: dt.datetime,
        not_after: dt.datetime,
        *extensions: x509.ExtensionType,
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(not_before).not_valid_after(not_after)
        own = self._key.public_key()
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, _CRITICAL))
        return builder.sign(self._key, hashes.SHA256())


def write_pair(folder: Path, pair: Pair) -> None:
    """Lay the two files down one after the other, as a person or a script does; each is replaced atomically."""
    for name, text in ((CERTIFICATE, pair.certificate), (KEY, pair.key)):
        fresh = folder / f".{name}.new"
        fresh.write_text(text)
        fresh.replace(folder / name)


def publish_secret(folder: Path, data: Mapping[str, str]) -> None:
    """Lay files down as a kubelet mounts a Secret: a new directory each time, to which `..data` is pointed at once."""
    for number in count():
        fresh = folder / f"..{number}"
        if not fresh.exists():
            break
    fresh.mkdir(parents=True)
    for name, text in data.items():
        (fresh / name).write_text(text)
    before = (folder / "..data").readlink() if (folder / "..data").is_symlink() else None
    (folder / "..data_tmp").symlink_to(fresh.name)
    (folder / "..data_tmp").replace(folder / "..data")
    for name in data:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    if before is not None:
        for file in (folder / before).iterdir():
            file.unlink()
        (folder / before).rmdir()


def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _period(not_before: dt.datetime | None, not_after: dt.datetime | None) -> tuple[dt.datetime, dt.datetime]:
    now = dt.datetime.now(dt.UTC)
    return not_before or now - dt.timedelta(days=2), not_after or now + dt.timedelta(days=30)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
