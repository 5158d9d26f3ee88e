"""TLS towards an API server: trusted authorities, and our client certificate.

Keys that are given as text never reach a disk: OpenSSL reads them from memory that has the name of a file.
"""

import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from interpose.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates or a key: in a file, which is read again when it changed, or as text, which counts more."""

    file: str = ""
    text: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.text)


def make_context(*, authorities: Pem, insecure: bool, certificate: Pem, key: Pem) -> ssl.SSLContext:
    """The TLS context for connections; ConfigError names what cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, authorities)
    if certificate:
        _load_certificate(context, certificate, key)
    return context


def _trust(context: ssl.SSLContext, authorities: Pem) -> None:
    if not authorities:
        context.load_default_certs()
        return
    # A cluster's CA may itself be signed by another: what is named is trusted, as everywhere in Kubernetes.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        if authorities.text:
            context.load_verify_locations(cadata=authorities.text)
        else:
            _check_file(authorities.file)
            context.load_verify_locations(cafile=authorities.file)
    except (OSError, ValueError) as error:
        name = authorities.file or "of the kubeconfig"
        raise ConfigError(f"certificate authorities {name}: {_reason(error)}") from None


def _load_certificate(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    try:
        with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
            _check_file(certificate_file)
            _check_file(key_file)
            # OpenSSL would ask on the terminal for the password of a key.
            context.load_cert_chain(certificate_file, key_file, password=_no_password)
    except (OSError, ValueError) as error:
        names = " and ".join(dict.fromkeys(pem.file or "given as text" for pem in (certificate, key)))
        raise ConfigError(f"client certificate and key {names}: {_reason(error)}") from None


def _check_file(path: str) -> None:
    """OpenSSL would wait for a pipe, and everything else with it."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - as in credentials
        raise ValueError("cannot be read: it is not a regular file")


def _no_password() -> str:
    raise ValueError("the key has a password, which is not supported")


@contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    if not pem.text:
        yield pem.file
        return
    number = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(pem.text.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"cannot be used: {(getattr(error, 'reason', '') or 'no PEM text').replace('_', ' ').lower()}"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)
