"""Validity period of a certificate, read from its bytes, and the names a certificate can be for. Pure.

The standard library serves certificates but does not parse them, and a library that does costs every replica 20 MB. Two
times are needed: they are at a fixed place behind a handful of other fields. Any input gives a Validity or a
ValueError. Names are DNS names and addresses, each in one normalised form, so that they compare.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0  # the only optional field before the times
_BEFORE_VALIDITY: Final = 3  # serial number, algorithm, issuer
# Two forms of a time, by their tags, and how many digits their years have.
_TIMES: Final = {0x17: 2, 0x18: 4}
_CENTURY: Final = 50  # years below are of this one, as RFC 5280 says


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The first and the last second, since the epoch."""

    not_before: float
    not_after: float

    def problem(self, now: float) -> str | None:
        """Why it is of no use now, if so."""
        if now > self.not_after:
            return f"the certificate expired at {_format_time(self.not_after)}"
        if now < self.not_before:
            return f"the certificate is not valid before {_format_time(self.not_before)}"
        return None

    def __str__(self) -> str:
        return f"valid until {_format_time(self.not_after)}"


class _Field(NamedTuple):
    tag: int
    content: bytes


def validity_of(pem: str) -> Validity:
    """Of the first certificate in a PEM text, which is the one that is served. ValueError."""
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("there is no certificate in it")
    try:
        return _validity(base64.b64decode(found[1]))
    except (binascii.Error, StopIteration, IndexError, UnicodeDecodeError, ValueError):
        raise ValueError("its first certificate cannot be read") from None


def _validity(der: bytes) -> Validity:
    signed = next(_fields(_inside(next(_fields(der)))))
    fields = [field for field in _fields(_inside(signed)) if field.tag != _VERSION]
    first, last = _fields(_inside(fields[_BEFORE_VALIDITY]))
    return Validity(not_before=_time(first), not_after=_time(last))


def _fields(data: bytes) -> Iterator[_Field]:
    """Tag, length, content, one after the other. Tags of more than one byte do not occur here."""
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:  # the length has a length
            wide = size & 0x7F
            size = int.from_bytes(data[at : at + wide], "big")
            at += wide
        if at + size > len(data):
            raise ValueError("cut off")
        yield _Field(tag, data[at : at + size])
        at += size


def _inside(field: _Field) -> bytes:
    if field.tag != _SEQUENCE:
        raise ValueError("not a sequence")
    return field.content


def _time(field: _Field) -> float:
    digits = _TIMES.get(field.tag)
    text = field.content.decode("ascii")
    if digits is None or not re.fullmatch(rf"[0-9]{{{digits + 10}}}Z", text):
        raise ValueError("not a time")
    year = int(text[:digits])
    if digits == 2:
        year += 2000 if year < _CENTURY else 1900
    month, day, hour, minute, second = (int(text[at : at + 2]) for at in range(digits, digits + 10, 2))
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def _format_time(when: float) -> str:
    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%dT%H:%M:%SZ}"


_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX: Final = 253
_ANY: Final = "*"


def certificate_name(text: str) -> str:
    """The one form of a name. ValueError if a client could never ask for it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _dns_name(text)
    if getattr(address, "scope_id", None):
        raise ValueError(f"{text!r} has a zone, which certificates know nothing of")
    return str(address)


def _dns_name(text: str) -> str:
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if labels[0] == _ANY and len(labels) > 1:
        labels = labels[1:]  # any name at the first place, and nowhere else
    # A name that ends in a number would be taken for an address.
    if len(name) > _MAX or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdecimal():
        raise ValueError(f"{text!r} is not a DNS name and no address")
    return name
