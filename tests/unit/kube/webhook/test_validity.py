"""When certificates are valid, as another library wrote it into them; and bytes that are none."""

import base64
import datetime as dt

import pytest

from interpose.kube.webhook.validity import Validity, validity_of
from tests.support.net.certificates import Authority

AUTHORITY = Authority()


def at(*parts: int) -> dt.datetime:
    """A moment."""
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (at(2026, 1, 2, 3, 4, 5), at(2027, 12, 31, 23, 59, 59)),
        (at(2049, 12, 31), at(2050, 1, 1)),  # the two ways to write a time meet here
        (at(1999, 12, 31), at(2199, 2, 28)),
    ],
)
@pytest.mark.parametrize("rsa", [False, True])
def test_times_are_read_as_they_were_written(first: dt.datetime, last: dt.datetime, rsa: bool) -> None:
    """In this century, the last and the next."""
    pair = AUTHORITY.issue(not_before=first, not_after=last, rsa=rsa)
    assert validity_of(pair.certificate) == Validity(not_before=first.timestamp(), not_after=last.timestamp())


def test_the_first_certificate_of_a_chain_counts() -> None:
    """It is the one that is served; text around it does not matter."""
    last = at(2030, 1, 1)
    pair = AUTHORITY.issue(not_after=last)
    assert validity_of(f"subject: x\n{pair.certificate}{AUTHORITY.pem}").not_after == last.timestamp()


def test_problems_are_told_from_both_ends() -> None:
    """Within its time there is none."""
    validity = Validity(not_before=at(2026, 1, 1).timestamp(), not_after=at(2027, 1, 1).timestamp())
    assert validity.problem(at(2026, 6, 1).timestamp()) is None
    assert validity.problem(at(2027, 1, 2).timestamp()) == "the certificate expired at 2027-01-01T00:00:00Z"
    assert validity.problem(at(2025, 1, 2).timestamp()) == "the certificate is not valid before 2026-01-01T00:00:00Z"
    assert str(validity) == "valid until 2027-01-01T00:00:00Z"


def _pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"


def _der(tag: int, *content: bytes) -> bytes:
    body = b"".join(content)
    return bytes([tag, len(body)]) + body


def _certificate(*times: bytes) -> str:
    fields = (_der(2, b"\x01"), _der(0x30), _der(0x30), _der(0x30, *times))
    return _pem(_der(0x30, _der(0x30, *fields)))


def test_a_certificate_of_the_first_version_can_be_read() -> None:
    """Which does not say its version."""
    text = _certificate(_der(0x17, b"260101000000Z"), _der(0x17, b"270101000000Z"))
    assert validity_of(text).not_after == at(2027, 1, 1).timestamp()


@pytest.mark.parametrize("text", ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"])
def test_text_without_a_certificate(text: str) -> None:
    """Is told apart from one that is broken."""
    with pytest.raises(ValueError, match="there is no certificate in it"):
        validity_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----",
        _pem(b""),
        _pem(b"\x30"),
        _pem(b"\x30\x05ab"),
        _pem(b"\x30\x85\xff\xff\xff\xff\xff"),
        _pem(_der(0x04, b"x")),
        _pem(_der(0x30, _der(0x30, _der(2, b"\x01")))),
        _certificate(_der(0x17, b"260101000000Z")),
        _certificate(_der(0x17, b"260101000000Z"), _der(0x0C, b"270101000000Z")),
        _certificate(_der(0x17, b"260101000000Z"), _der(0x17, b"2701010000Z")),
        _certificate(_der(0x17, b"260101000000Z"), _der(0x17, b"271301000000Z")),
        _certificate(_der(0x17, b"260101000000Z"), _der(0x17, b"\xff7010100000Z")),
        _certificate(_der(0x18, b"00000101000000Z"), _der(0x17, b"270101000000Z")),
    ],
)
def test_broken_certificates(text: str) -> None:
    """Whatever is wrong, the outcome is the same."""
    if text == _pem(b""):
        text = text.replace("\n\n", "\n=\n")
    with pytest.raises(ValueError, match="its first certificate cannot be read"):
        validity_of(text)
