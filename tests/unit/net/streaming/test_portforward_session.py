"""Forwarded ports on the server, as far as no connection is needed."""

import pytest

from interpose.net.streaming.portforward_session import read_port


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("1", 1),
        ("80", 80),
        ("65535", 65535),
        ("0000080", 80),
        ("65536", None),
        ("", None),
        ("0", None),
        ("-5", None),
        ("+5", None),
        (" 5", None),
        ("8o", None),
        ("²", None),
        ("٣", None),
        ("00000180000", None),
        ("000001" + "1" * 5000, None),
    ],
)
def test_ports_in_headers(text: str, port: int | None) -> None:
    """All of the text counts, and no text is too long to be refused."""
    assert read_port(text) == port
