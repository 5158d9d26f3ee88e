"""What a credential program prints: read and checked. Pure.

Invariant: what was printed is in no message, but for a version and a time that are none.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interpose.errors import ConfigError
from interpose.net.http.errors import shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredential:
    """What the program gave; `expires` is in seconds since 1970, None if it does not say."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires: float | None = None


def read_credential(printed: bytes, api_version: str, where: str) -> ExecCredential:
    """What was printed, checked; ConfigError begins with `where`."""
    try:
        found = json.loads(printed)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
        raise ConfigError(f"{where}: did not print an ExecCredential in JSON")
    if found.get("apiVersion") != api_version:
        version = shortened(str(found.get("apiVersion")).encode(), 80)
        raise ConfigError(f"{where}: printed apiVersion {version!r}, {api_version!r} was asked for")
    status = found.get("status")
    if not isinstance(status, dict):
        raise ConfigError(f"{where}: printed no status")
    token, certificate, key = (
        _text(status, name, where) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where}: printed a certificate without a key, or a key without a certificate")
    if not token and not certificate:
        raise ConfigError(f"{where}: printed neither a token nor a certificate")
    expires = _parse_time(_text(status, "expirationTimestamp", where), where)
    return ExecCredential(token=token, certificate=certificate, key=key, expires=expires)


def _text(status: dict[str, Any], name: str, where: str) -> str:
    value = status.get(name)
    if not isinstance(value, str | None):
        raise ConfigError(f"{where}: status.{name} is not text")
    return value or ""


def _parse_time(text: str, where: str) -> float | None:
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        shown = shortened(text.encode(), 40)
        raise ConfigError(f"{where}: status.expirationTimestamp: {shown!r} is not a time") from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
