"""Keys and certificates for the webhook, made and looked at. The one place that needs the extra `certs`.

A certificate authority signs one certificate and is forgotten: its key is never written anywhere, so nobody can sign
another one with it. A renewal brings an authority of its own.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY: Final = "interpose webhook CA"
# Clocks of API servers and of whoever runs this differ a little.
_BEFORE: Final = timedelta(minutes=5)
_MAX_COMMON_NAME: Final = 64
# What stands between blocks, such as a placeholder before the first issue, is no block.
_BLOCK: Final = re.compile(rb"-----BEGIN [^-\n]+-----.*?-----END [^-\n]+-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Issued:
    """PEM texts: the authority, the certificate it signed, and the certificate's key."""

    authority: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """What a certificate is good for."""

    names: frozenset[str]  # DNS names and addresses, in the one form of `names`
    not_after: datetime

    def missing(self, names: Iterable[str]) -> list[str]:
        """Names that it should have and does not."""
        return sorted(set(names) - self.names)


def issue(names: Sequence[str], lifetime: timedelta, now: datetime) -> Issued:
    """A new authority, and a certificate for these DNS names and addresses, in the one form of `names`."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY)])
    # Browsers and Go look at the alternative names alone; the common name is for people.
    common = names[0][:_MAX_COMMON_NAME]
    authority = _sign(
        _start(authority_name, authority_name, authority_key.public_key(), lifetime, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True),
        authority_key,
    )
    certificate = _sign(
        _start(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)]),
            authority_name,
            key.public_key(),
            lifetime,
            now,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        ),
        authority_key,
    )
    return Issued(
        authority=authority.public_bytes(serialization.Encoding.PEM),
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def examine(issued: Issued) -> CertificateFacts:
    """What the certificate is good for; ValueError if the three do not belong together or cannot be read."""
    authority = _read(issued.authority, "ca.crt")
    certificate = _read(issued.certificate, "tls.crt")
    try:
        key = serialization.load_pem_private_key(issued.key, password=None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"tls.key: {error}") from None
    if key.public_key() != certificate.public_key():
        raise ValueError("tls.key: is not the key of tls.crt")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise ValueError("tls.crt: is not signed by ca.crt") from None
    return CertificateFacts(
        names=_names(certificate), not_after=min(certificate.not_valid_after_utc, authority.not_valid_after_utc)
    )


def bundle(kept: bytes, added: bytes, now: datetime) -> bytes:
    """Authorities that are trusted: `added` first, then those of `kept` that still count, each once.

    While a certificate is replaced, servers with the old and with the new one run side by side. Only what is known to
    be over goes: a block that we cannot read may be one that API servers can, and somebody's webhook stands on it.
    """
    found: dict[bytes, bytes] = {}
    for block in (*_BLOCK.findall(added), *_BLOCK.findall(kept)):
        if not _is_expired(block, now):
            # Two spellings of the same bytes are one.
            found.setdefault(b"".join(block.split()), block.strip() + b"\n")
    return b"".join(found.values())


def _is_expired(block: bytes, now: datetime) -> bool:
    try:
        return x509.load_pem_x509_certificate(block).not_valid_after_utc <= now
    except ValueError:
        return False


def _start(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _BEFORE)
        .not_valid_after(now.astimezone(UTC) + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _sign(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return builder.sign(key, hashes.SHA256())


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = found.get_values_for_type(x509.IPAddress)
    return frozenset([*map(str.lower, found.get_values_for_type(x509.DNSName)), *map(str, addresses)])


def _read(pem: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
