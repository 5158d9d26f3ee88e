"""Codes and messages of a gRPC status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.net.grpc.status import (
    Code,
    RpcError,
    code_of_http,
    code_of_reset,
    parse_code,
    quote_message,
    shortened,
    unquote_message,
)
from interpose.net.h2.errors import ErrorCode


@given(st.text())
def test_message_survives_the_wire(text: str) -> None:
    """Any text arrives, and what travels is printable ASCII."""
    wire = quote_message(text) if not any(0xD800 <= ord(char) <= 0xDFFF for char in text) else b""
    assert all(0x20 <= byte <= 0x7E for byte in wire)
    assert wire == b"" or unquote_message(wire) == text


@pytest.mark.parametrize(
    ("wire", "text"),
    [(b"100%", "100%"), (b"%zz", "%zz"), (b"%4", "%4"), (b"%41", "A"), (b"\xff", "\ufffd"), (b"%FF!", "\ufffd!")],
)
def test_broken_escapes_stay(wire: bytes, text: str) -> None:
    """A message is shown as well as it can be, never refused."""
    assert unquote_message(wire) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("123456789", "123456789"),
        ("1234567890", "1234567890"),
        ("12345678901", "1234567..."),
        ("1234567%", "1234567%"),  # as %25
        ("12345678%", "1234567..."),
        ("1ö3", "1ö3"),
        ("12ö345", "12..."),  # ö takes six
        ("ö\n23", "ö..."),
    ],
)
def test_long_messages_are_cut(text: str, kept: str) -> None:
    """So that they fit when they are quoted; here with room for ten bytes."""
    assert shortened(text, 10) == kept


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.integers(3, 40))
def test_what_is_cut_fits_and_begins_as_it_did(text: str, limit: int) -> None:
    """Only what does not fit is cut, and only as much as must be."""
    cut = shortened(text, limit)
    assert len(quote_message(cut)) <= limit
    if cut != text:
        assert len(quote_message(text)) > limit
        assert text.startswith(cut[:-3])
        assert cut[-3:] == "..."
        assert len(quote_message(text[: len(cut) - 2])) + 3 > limit


@pytest.mark.parametrize(("value", "code"), [(b"0", 0), (b"16", 16), (b"17", 2), (b"-1", 2), (b"x", 2), (None, 2)])
def test_parse_code(value: bytes | None, code: int) -> None:
    """Anything that is no code is UNKNOWN."""
    assert parse_code(value) == code


def test_resets() -> None:
    """As gRPC maps HTTP/2 errors; a number nobody knows is UNKNOWN."""
    assert code_of_reset(ErrorCode.CANCEL) is Code.CANCELLED
    assert code_of_reset(ErrorCode.REFUSED_STREAM) is Code.UNAVAILABLE
    assert code_of_reset(ErrorCode.ENHANCE_YOUR_CALM) is Code.RESOURCE_EXHAUSTED
    assert code_of_reset(ErrorCode.NO_ERROR) is Code.INTERNAL
    assert code_of_reset(99) is Code.UNKNOWN


def test_http_statuses() -> None:
    """As gRPC maps HTTP statuses."""
    assert code_of_http(404) is Code.UNIMPLEMENTED
    assert code_of_http(503) is Code.UNAVAILABLE
    assert code_of_http(200) is Code.UNKNOWN


def test_error_names_code_and_message() -> None:
    """What a log shows."""
    assert str(RpcError(Code.NOT_FOUND, "no such pod")) == "NOT_FOUND: no such pod"
    assert str(RpcError(Code.ABORTED)) == "ABORTED"
